import { useEffect, useMemo, useRef, useState } from "react";
import { useInfiniteQuery } from "@connectrpc/connect-query";
import {
  type FlowState,
  type GetRuntimeResponse,
  LogLevel,
  type NodeErrorEvent,
  type NodeState,
  RuntimeService,
} from "@flowgate/client";
import { type EventOf, useEvents } from "../../api/live.tsx";
import { runsFlows } from "../../components/runtime.ts";
import { byPage } from "../../components/table.tsx";
import type { NodeStatus } from "../../flow-view/overlays.ts";

export type LastError = { readonly error: NodeErrorEvent; readonly time: NodeState["lastErrorTime"] };

export type NodeStates = {
  readonly statuses: ReadonlyMap<string, NodeStatus>;
  readonly errors: ReadonlyMap<string, number>;
  readonly messages: ReadonlyMap<string, number>;
  readonly tabErrors: ReadonlyMap<string, number>;
  readonly lastErrors: ReadonlyMap<string, LastError>;
  readonly states: ReadonlyMap<string, NodeState>;
};

/** With more nodes, the states of the others come with the events. */
const maxPages = 5;

/** Counts of messages do not come as events. */
const refreshMs = 15_000;

/** Events arrive faster than anyone can read. */
const updateMs = 250;

type Changes = {
  readonly statuses: Map<string, NodeStatus | undefined>;
  readonly errors: Map<string, number>;
  readonly tabErrors: Map<string, number>;
  readonly lastErrors: Map<string, LastError>;
};

/**
 * The states of the nodes of a tab, kept up to date by events. `tab` is undefined for a subflow, whose instances can be
 * anywhere. Where another replica runs the flows, events are the only source.
 */
export function useNodeStates(tab: string | undefined, runtime: GetRuntimeResponse | undefined): NodeStates {
  const isHere = runsFlows(runtime);
  const isStopped = runtime?.started === false;
  const { data, hasNextPage, isFetching, isFetchNextPageError, fetchNextPage } = useInfiniteQuery(
    RuntimeService.method.listNodeStatuses,
    { tab: tab ?? "", pageSize: 1000, pageToken: "" },
    { ...byPage, enabled: isHere, refetchInterval: refreshMs },
  );
  // Another object when the flows start or stop, here or elsewhere: changes before it are void.
  const pages = useMemo(() => (isHere && !isStopped && data?.pages) || [], [isHere, isStopped, data?.pages]);
  useEffect(() => {
    if (isHere && hasNextPage && !isFetching && !isFetchNextPageError && pages.length < maxPages) {
      void fetchNextPage();
    }
  }, [isHere, hasNextPage, isFetching, isFetchNextPageError, pages, fetchNextPage]);
  const summary = useTabErrors(isHere);
  const changes = useChanges(pages);
  return useMemo(
    () =>
      isStopped
        ? combine([], undefined, noChanges())
        : combine(
            pages.flatMap(({ nodes }) => nodes),
            summary,
            changes,
          ),
    [isStopped, pages, summary, changes],
  );
}

/** The errors of all tabs, which the states of one tab do not have. */
function useTabErrors(isHere: boolean): readonly FlowState[] | undefined {
  const { data } = useInfiniteQuery(
    RuntimeService.method.listNodeStatuses,
    { failing: true, pageSize: 1, pageToken: "" },
    { ...byPage, getNextPageParam: () => undefined, enabled: isHere, refetchInterval: refreshMs },
  );
  return isHere ? data?.pages[0]?.flows : undefined;
}

/** The changes since the states were read, which `since` stands for. */
function useChanges(since: unknown): Changes {
  const pending = useRef({ since, changes: noChanges() });
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const [published, setPublished] = useState(() => ({ since, changes: noChanges() }));
  useEffect(
    () => () => {
      clearTimeout(timer.current);
      timer.current = undefined;
    },
    [],
  );
  useEvents(["nodeStatus", "nodeError"], (event: EventOf<"nodeStatus" | "nodeError">) => {
    if (pending.current.since !== since) {
      pending.current = { since, changes: noChanges() };
    }
    record(pending.current.changes, event);
    timer.current ??= setTimeout(() => {
      timer.current = undefined;
      const { changes, since: begin } = pending.current;
      const { statuses, errors, tabErrors, lastErrors } = changes;
      setPublished({
        since: begin,
        changes: {
          statuses: new Map(statuses),
          errors: new Map(errors),
          tabErrors: new Map(tabErrors),
          lastErrors: new Map(lastErrors),
        },
      });
    }, updateMs);
  });
  return published.since === since ? published.changes : empty;
}

function record(changes: Changes, event: EventOf<"nodeStatus" | "nodeError">): void {
  const { statuses, errors, tabErrors, lastErrors } = changes;
  const { kind, nodeId, flowId, subflowPath, time } = event;
  if (kind.case === "nodeStatus") {
    statuses.set(nodeId, readStatus(kind.value));
    return;
  }
  if (kind.value.level !== LogLevel.ERROR && kind.value.level !== LogLevel.FATAL) {
    return;
  }
  const count = Math.max(1, kind.value.count);
  for (const id of [nodeId, ...subflowPath]) {
    errors.set(id, (errors.get(id) ?? 0) + count);
  }
  lastErrors.set(nodeId, { error: kind.value, time });
  tabErrors.set(flowId, (tabErrors.get(flowId) ?? 0) + count);
}

function combine(nodes: readonly NodeState[], flows: readonly FlowState[] | undefined, changes: Changes): NodeStates {
  const states = new Map(nodes.map((state) => [state.nodeId, state]));
  const [statuses, errors, messages] = [
    new Map<string, NodeStatus>(),
    new Map<string, number>(),
    new Map<string, number>(),
  ];
  const lastErrors = new Map<string, LastError>();
  for (const { nodeId, subflowPath, status, errors: count, messages: received, lastError, lastErrorTime } of nodes) {
    if (lastError !== undefined) {
      lastErrors.set(nodeId, { error: lastError, time: lastErrorTime });
    }
    const known = readStatus(status);
    if (known !== undefined) {
      statuses.set(nodeId, known);
    }
    if (received > 0) {
      messages.set(nodeId, (messages.get(nodeId) ?? 0) + received);
    }
    // A subflow instance shows the errors of the nodes in it.
    for (const id of count > 0 ? [nodeId, ...subflowPath] : []) {
      errors.set(id, (errors.get(id) ?? 0) + count);
    }
  }
  for (const [id, status] of changes.statuses) {
    if (status === undefined) {
      statuses.delete(id);
    } else {
      statuses.set(id, status);
    }
  }
  const tabErrors = new Map((flows ?? []).map(({ flowId, errors: count }) => [flowId, count]));
  for (const [id, last] of changes.lastErrors) {
    lastErrors.set(id, last);
  }
  addAll(errors, changes.errors);
  addAll(tabErrors, changes.tabErrors);
  return { statuses, errors, messages, tabErrors, lastErrors, states };
}

function addAll(counts: Map<string, number>, added: ReadonlyMap<string, number>): void {
  for (const [id, count] of added) {
    counts.set(id, (counts.get(id) ?? 0) + count);
  }
}

/** Undefined: the node has removed its status. */
function readStatus(status: NodeState["status"]): NodeStatus | undefined {
  if (status === undefined || (status.text === "" && status.fill === "" && status.shape === "")) {
    return undefined;
  }
  return {
    text: status.text,
    fill: status.fill || undefined,
    shape: status.shape === "dot" || status.shape === "ring" ? status.shape : undefined,
  };
}

function noChanges(): Changes {
  return { statuses: new Map(), errors: new Map(), tabErrors: new Map(), lastErrors: new Map() };
}

const empty = noChanges();

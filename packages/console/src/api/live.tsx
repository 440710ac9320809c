import { createContext, type ReactNode, useContext, useEffect, useRef, useState, useSyncExternalStore } from "react";
import type { DescMethod } from "@bufbuild/protobuf";
import type { Transport } from "@connectrpc/connect";
import { useTransport } from "@connectrpc/connect-query";
import { type QueryClient, useQueryClient } from "@tanstack/react-query";
import {
  AuthService,
  type Event,
  EventKind,
  FlowsService,
  ModulesService,
  ProposalsService,
  RevisionsService,
  RuntimeService,
  SettingsService,
  TokensService,
} from "@flowgate/client";
import { followEvents } from "./follow.ts";
import { refresh } from "./refresh.ts";

export type EventCase = NonNullable<Event["kind"]["case"]>;
export type EventOf<Case extends EventCase> = Event & { readonly kind: Extract<Event["kind"], { case: Case }> };

const outdated: Partial<Record<EventCase, readonly DescMethod[]>> = {
  deployment: [
    FlowsService.method.getFlows,
    FlowsService.method.getFlow,
    RevisionsService.method.listRevisions,
    RevisionsService.method.getRevision,
    RuntimeService.method.getRuntime,
    RuntimeService.method.listNodeStatuses,
    SettingsService.method.getSettings,
    ModulesService.method.listModules,
    ProposalsService.method.listProposals,
    ProposalsService.method.getProposal,
  ],
  runtimeState: [
    RuntimeService.method.getRuntime,
    RuntimeService.method.listNodeStatuses,
    SettingsService.method.getSettings,
    ModulesService.method.listModules,
  ],
  health: [RuntimeService.method.getRuntime],
  module: [ModulesService.method.listModules],
  proposal: [ProposalsService.method.listProposals, ProposalsService.method.getProposal],
  token: [TokensService.method.listTokens],
  users: [AuthService.method.getIdentity],
};

/** Received all the time. Logs and debug messages are asked for by the pages that show them. */
const kinds = [
  EventKind.DEPLOYMENT,
  EventKind.RUNTIME_STATE,
  EventKind.HEALTH,
  EventKind.NODE_STATUS,
  EventKind.NODE_ERROR,
  EventKind.MODULE,
  EventKind.TOKEN,
  EventKind.USERS,
  EventKind.PROPOSAL,
];

type Listener = (event: Event) => void;

/**
 * Follows the service's events while the page is open. Resumes after the last event received, so that none is missed.
 */
class Live {
  readonly #listeners = new Set<Listener>();
  readonly #watchers = new Set<() => void>();
  #isConnected = false;

  get isConnected(): boolean {
    return this.#isConnected;
  }

  /** Calls the listener with each event from now on. Returns what ends this. */
  listen(listener: Listener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  watchConnection = (onChange: () => void): (() => void) => {
    this.#watchers.add(onChange);
    return () => this.#watchers.delete(onChange);
  };

  async run(transport: Transport, signal: AbortSignal): Promise<void> {
    const onEvent = (event: Event): void => {
      for (const listener of this.#listeners) {
        listener(event);
      }
    };
    const onConnection = (isConnected: boolean): void => this.#setConnected(isConnected);
    try {
      await followEvents(transport, { kinds }, { onEvent, onConnection }, signal);
    } catch {
      // The user may not receive events: the page keeps its current data.
    }
  }

  #setConnected(isConnected: boolean): void {
    if (isConnected !== this.#isConnected) {
      this.#isConnected = isConnected;
      for (const notify of this.#watchers) {
        notify();
      }
    }
  }
}

const LiveContext = createContext<Live | undefined>(undefined);

export function LiveProvider({ children }: { readonly children: ReactNode }): ReactNode {
  const [live] = useState(() => new Live());
  const transport = useTransport();
  const queries = useQueryClient();
  useEffect(() => {
    const controller = new AbortController();
    const end = live.listen((event) => refreshAfter(queries, event));
    void live.run(transport, controller.signal);
    return () => {
      end();
      controller.abort();
    };
  }, [live, transport, queries]);
  return <LiveContext value={live}>{children}</LiveContext>;
}

function refreshAfter(queries: QueryClient, { kind }: Event): void {
  // After events were lost, all could have changed.
  const methods = kind.case === "dropped" ? Object.values(outdated).flat() : (outdated[kind.case ?? "bookmark"] ?? []);
  for (const method of new Set(methods)) {
    void refresh(queries, method);
  }
}

function useLive(): Live {
  const live = useContext(LiveContext);
  if (live === undefined) {
    throw new TypeError("there is no LiveProvider");
  }
  return live;
}

export function useIsLive(): boolean {
  const live = useLive();
  return useSyncExternalStore(live.watchConnection, () => live.isConnected);
}

export function useEvents<Case extends EventCase>(
  cases: readonly Case[],
  onEvent: (event: EventOf<Case>) => void,
): void {
  const live = useLive();
  const latest = useRef({ cases, onEvent });
  useEffect(() => {
    latest.current = { cases, onEvent };
  });
  useEffect(
    () =>
      live.listen((event) => {
        const { cases: wanted, onEvent: handle } = latest.current;
        if ((wanted as readonly unknown[]).includes(event.kind.case)) {
          handle(event as EventOf<Case>);
        }
      }),
    [live],
  );
}

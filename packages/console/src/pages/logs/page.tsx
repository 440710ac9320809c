import "./logs.css";
import { type ReactNode, useCallback, useEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";
import { useQuery, useTransport } from "@connectrpc/connect-query";
import { CopyButton } from "../../components/copy.tsx";
import { download } from "../../components/download.ts";
import { type Filters, SelectFilter, TextFilter, TimeFilter, useFilters } from "../../components/filters.tsx";
import { Problem } from "../../components/notice.tsx";
import { Page } from "../../components/page.tsx";
import { runsFlows, useRuntime } from "../../components/runtime.ts";
import { useSession } from "../../session.tsx";
import { texts as app } from "../../texts/app.ts";
import { texts } from "../../texts/logs.ts";
import { LogFeed, type LogQuery, type LogState } from "./log-feed.ts";
import { filterNames, formatKinds, type Kind, parseKinds, permittedKinds, toQuery } from "./log-filters.ts";
import { contains, toLine, toText } from "./log-line.ts";
import { LogList } from "./log-list.tsx";
import { type Event, RuntimeService } from "@flowgate/client";

export function LogsPage(): ReactNode {
  const { can } = useSession();
  const [filters, change] = useFilters(filterNames);
  const permitted = permittedKinds(can);
  const chosen = parseKinds(filters.kinds, permitted);
  const query = toQuery(filters, chosen);
  const [isPaused, setPaused] = useState(false);
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const isScrolled = useIsScrolled();
  const isHolding = isPaused || isScrolled || open.size > 0;
  const [state, loadEarlier] = useLog(query, isHolding);
  const lines = useMemo(
    () => state.shown.map((event) => toLine(event)).filter((line) => line !== undefined),
    [state.shown],
  );
  const text = filters.text.toLowerCase();
  const shown = useMemo(() => lines.filter((line) => contains(line, text)), [lines, text]);
  const follow = (): void => {
    setPaused(false);
    setOpen(new Set());
    scrollTo({ top: 0 });
  };
  const toggle = useCallback((key: string): void => {
    setOpen((previous) => (previous.has(key) ? previous.difference(new Set([key])) : new Set([...previous, key])));
  }, []);
  return (
    <Page title={app.pages.logs} actions={<Exports text={() => toText(shown)} />}>
      <FilterBar filters={filters} onChange={change} permitted={permitted} chosen={chosen} seen={state.shown} />
      <div className="logs-bar">
        {query.untilMs !== undefined ? (
          <span className="muted">New entries are not shown while Until is set.</span>
        ) : can("events.read") ? (
          <>
            <button type="button" aria-pressed={isPaused} onClick={() => (isPaused ? follow() : setPaused(true))}>
              {isPaused ? "Continue" : "Pause"}
            </button>
            <output data-connection={state.connection}>{statusOf(state, isHolding)}</output>
          </>
        ) : (
          <span className="muted">New entries need the permission events.read.</span>
        )}
        {state.held === 0 ? null : (
          <button type="button" className="primary logs-held" onClick={follow}>
            {texts.held(state.held)}
          </button>
        )}
        <span className="muted logs-count">{texts.count(shown.length, lines.length)}</span>
      </div>
      {state.error === undefined ? null : <Problem error={state.error} onRetry={loadEarlier} />}
      <LogList lines={shown} open={open} onToggle={toggle} state={state} onEnd={loadEarlier} query={query} />
    </Page>
  );
}

function statusOf({ connection }: LogState, isHolding: boolean): string {
  switch (connection) {
    case "connecting":
      return "Connecting …";
    case "lost":
      return "Not connected: reconnecting";
    case "live":
      return isHolding ? "Paused" : "Following";
    case "off":
      return "";
  }
}

const initial: LogState = {
  shown: [],
  held: 0,
  connection: "connecting",
  isLoading: true,
  earlier: "some",
  error: undefined,
};

function useLog(query: LogQuery, isHolding: boolean): readonly [LogState, () => void] {
  const transport = useTransport();
  const { can } = useSession();
  const feed = useRef<LogFeed>(undefined);
  const key = JSON.stringify([query, can("logs.read"), can("events.read")]);
  const [latest, setLatest] = useState({ key, state: initial });
  const holding = useRef(isHolding);
  useEffect(() => {
    holding.current = isHolding;
    feed.current?.hold(isHolding);
  }, [isHolding]);
  useEffect(() => {
    const [selected, canList, canFollow] = JSON.parse(key) as [LogQuery, boolean, boolean];
    const onChange = (state: LogState): void => setLatest({ key, state });
    const opened = new LogFeed({ transport, query: selected, canList, canFollow, onChange });
    opened.hold(holding.current);
    feed.current = opened;
    return () => opened[Symbol.dispose]();
  }, [transport, key]);
  const loadEarlier = useCallback(() => void feed.current?.loadEarlier(), []);
  return [latest.key === key ? latest.state : initial, loadEarlier];
}

/** Beyond this scroll position the list does not move while entries arrive. */
const scrolledPx = 80;

function useIsScrolled(): boolean {
  return useSyncExternalStore(
    (onChange) => {
      addEventListener("scroll", onChange, { passive: true });
      return () => removeEventListener("scroll", onChange);
    },
    () => scrollY > scrolledPx,
  );
}

function Exports({ text }: { readonly text: () => string }): ReactNode {
  return (
    <>
      <CopyButton text={text} />
      <button type="button" onClick={() => download(new Blob([text()], { type: "text/plain" }), "flowgate-log.txt")}>
        Download
      </button>
    </>
  );
}

type LogFilters = Filters<(typeof filterNames)[number]>;

const levels = Object.entries(texts.levels).map(([value, label]) => ({ value, label }));

/** Selects entries. On a phone, it is closed at first. */
function FilterBar({
  filters,
  onChange,
  permitted,
  chosen,
  seen,
}: {
  readonly filters: LogFilters;
  readonly onChange: (changes: Partial<LogFilters>) => void;
  readonly permitted: readonly Kind[];
  readonly chosen: readonly Kind[];
  readonly seen: readonly Event[];
}): ReactNode {
  const toggle = (kind: Kind): void => {
    const next = permitted.filter((each) => chosen.includes(each) !== (each === kind));
    onChange({ kinds: formatKinds(next, permitted) });
  };
  return (
    <details className="logs-filters" open={matchMedia("(min-width: 641px)").matches}>
      <summary>Filters</summary>
      <fieldset>
        <legend>Kinds</legend>
        {permitted.map((kind) => (
          <label key={kind.name} className="inline">
            <input type="checkbox" checked={chosen.includes(kind)} onChange={() => toggle(kind)} />
            {texts.kind[kind.name]}
          </label>
        ))}
      </fieldset>
      <div className="filters">
        <SelectFilter
          label="Level"
          value={filters.level}
          all="all levels"
          options={levels}
          onChange={(level) => onChange({ level })}
        />
        <SelectFilter
          label="Tab"
          value={filters.tab}
          all="all tabs"
          options={useTabs(filters.tab, seen)}
          onChange={(tab) => onChange({ tab })}
        />
        <TextFilter label="Node (id, name or type)" value={filters.node} onChange={(node) => onChange({ node })} />
        <TimeFilter label="Since" value={filters.since} onChange={(since) => onChange({ since })} />
        <TimeFilter label="Until" value={filters.until} onChange={(until) => onChange({ until })} />
        <TextFilter label="Text" value={filters.text} onChange={(text) => onChange({ text })} />
      </div>
    </details>
  );
}

/** The tabs that run or have entries, and the one that is selected: reading all flows for their names would take long. */
function useTabs(selected: string, seen: readonly Event[]): { value: string; label: string }[] {
  const { can } = useSession();
  const { data } = useQuery(
    RuntimeService.method.listNodeStatuses,
    { pageSize: 1 },
    { enabled: runsFlows(useRuntime(can("runtime.read"))), retry: false },
  );
  return useMemo(() => {
    const labels = new Map<string, string>(selected === "" ? [] : [[selected, selected]]);
    for (const { flowId, flowLabel } of [...seen, ...(data?.flows ?? [])]) {
      if (flowId !== "" && (flowLabel !== "" || !labels.has(flowId))) {
        labels.set(flowId, flowLabel || flowId);
      }
    }
    return Array.from(labels, ([value, label]) => ({ value, label })).toSorted((one, other) =>
      one.label.localeCompare(other.label),
    );
  }, [selected, seen, data]);
}

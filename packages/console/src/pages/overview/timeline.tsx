import { type ReactNode, useEffect, useState } from "react";
import { Link } from "wouter";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { useQuery } from "@connectrpc/connect-query";
import { EventKind, LogsService, RevisionsService } from "@flowgate/client";
import { useEvents } from "../../api/live.tsx";
import { useRefresh } from "../../api/refresh.ts";
import { Problem } from "../../components/notice.tsx";
import { Sign } from "../../components/sign.tsx";
import { Time } from "../../components/time.tsx";
import { visibleText } from "../../components/visible-text.ts";
import { useSession } from "../../session.tsx";
import { texts as all } from "../../texts/overview.ts";
import { dayMs, type Entry, type Span, toEntries, toSpans } from "./timeline.ts";

const maxRead = 200;

/** The number of entries shown at first. */
const fewEntries = 8;

/** The deployments and changes of state of the last day: as a picture, and as a list that says the same. */
export function Timeline(): ReactNode {
  const { can } = useSession();
  const nowMs = useMinutes();
  const [sinceMs] = useState(nowMs - dayMs);
  const since = timestampFromMs(sinceMs);
  const revisions = useQuery(
    RevisionsService.method.listRevisions,
    { startTime: since, pageSize: maxRead },
    { enabled: can("revisions.read") },
  );
  const logs = useQuery(
    LogsService.method.listLogs,
    { kinds: [EventKind.RUNTIME_STATE], since, pageSize: maxRead },
    { enabled: can("logs.read") },
  );
  const refresh = useRefresh(LogsService.method.listLogs);
  useEvents(["runtimeState"], () => void refresh());
  const changes = logs.data?.logs ?? [];
  const error = revisions.error ?? logs.error;
  const isPending = (can("revisions.read") && revisions.isPending) || (can("logs.read") && logs.isPending);
  const entries = toEntries(revisions.data?.revisions ?? [], changes).filter(({ atMs }) => atMs > nowMs - dayMs);
  return (
    <section className="card" aria-labelledby="overview-timeline">
      <h2 id="overview-timeline">The last day</h2>
      {error === null ? null : <Problem error={error} />}
      {can("logs.read") ? null : <p className="muted">Changes of state need the permission logs.read.</p>}
      <Picture entries={entries} spans={toSpans(changes, nowMs)} nowMs={nowMs} />
      {entries.length === 0 && !isPending ? (
        <p className="muted">Nothing was deployed, and the state of the flows has not changed.</p>
      ) : (
        <EntryList entries={entries} />
      )}
    </section>
  );
}

const minuteMs = 60_000;

function useMinutes(): number {
  const [nowMs, setNowMs] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNowMs(Date.now()), minuteMs);
    return () => clearInterval(timer);
  }, []);
  return nowMs;
}

const laneHeight = 22;

function Picture({
  entries,
  spans,
  nowMs,
}: {
  readonly entries: readonly Entry[];
  readonly spans: ReadonlyMap<string, readonly Span[]>;
  readonly nowMs: number;
}): ReactNode {
  const fromMs = nowMs - dayMs;
  const x = (ms: number): string => `${Math.min(Math.max(((ms - fromMs) / dayMs) * 100, 0), 100).toFixed(3)}%`;
  // The newest is drawn over the others.
  const deployments = entries.filter(({ kind }) => kind === "deployment").toReversed();
  const lanes = [...spans].slice(0, 8);
  const height = laneHeight * (1 + lanes.length);
  return (
    <svg className="overview-timeline" height={height + 18} aria-hidden="true">
      {[0, 6, 12, 18, 24].map((hours) => (
        <g key={hours}>
          <line
            className="overview-grid"
            x1={x(nowMs - hours * 3_600_000)}
            x2={x(nowMs - hours * 3_600_000)}
            y2={height}
          />
          <text x={x(nowMs - hours * 3_600_000)} y={height + 14} textAnchor={anchors[hours] ?? "middle"}>
            {hours === 0 ? "now" : all.timeline.hoursAgo(hours)}
          </text>
        </g>
      ))}
      {lanes.map(([name, states], lane) =>
        states.map(({ fromMs: start, toMs, tone, word }) => (
          <rect
            key={`${name} ${start}`}
            data-tone={tone}
            x={x(start)}
            y={laneHeight * (lane + 1) + 5}
            width={`${Math.max((Math.max(toMs, fromMs) - Math.max(start, fromMs)) / dayMs, 0.001) * 100}%`}
            height={laneHeight - 10}
          >
            <title>{name === "" ? word : `${name}: ${word}`}</title>
          </rect>
        )),
      )}
      {deployments.map(({ key, atMs, tone, text }) => (
        <circle key={key} data-tone={tone} cx={x(atMs)} cy={laneHeight / 2} r={6}>
          <title>{text}</title>
        </circle>
      ))}
    </svg>
  );
}

const anchors: Readonly<Record<number, "start" | "end">> = { 0: "end", 24: "start" };

function EntryList({ entries }: { readonly entries: readonly Entry[] }): ReactNode {
  const [isWhole, setWhole] = useState(false);
  const shown = isWhole ? entries : entries.slice(0, fewEntries);
  return (
    <>
      <ol className="overview-entries plain-list" aria-label="Deployments and changes of state, newest first">
        {shown.map(({ key, atMs, tone, word, text, detail, rev, kind }) => (
          <li key={key}>
            <Time at={timestampFromMs(atMs)} />
            <span className="overview-entry-sign">
              <Sign tone={tone}>{word}</Sign>
            </span>
            <span className="overview-entry">
              {kind === "deployment" ? (
                <Link href={`/history/${encodeURIComponent(rev)}`}>{visibleText(text)}</Link>
              ) : (
                visibleText(text)
              )}
              {detail === "" ? null : <span className="muted"> {visibleText(detail)}</span>}
            </span>
          </li>
        ))}
      </ol>
      {entries.length > shown.length ? (
        <button type="button" className="load-more" onClick={() => setWhole(true)}>
          {all.timeline.showAll(entries.length)}
        </button>
      ) : null}
    </>
  );
}

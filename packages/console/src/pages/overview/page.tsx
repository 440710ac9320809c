import "./overview.css";
import { type ReactNode, useEffect, useRef, useState } from "react";
import { useQuery } from "@connectrpc/connect-query";
import {
  ProposalsService,
  ProposalState,
  type Revision,
  RevisionsService,
  RuntimeService,
  SettingsService,
} from "@flowgate/client";
import { useEvents, useIsLive } from "../../api/live.tsx";
import { useRefresh } from "../../api/refresh.ts";
import { Page, Result } from "../../components/page.tsx";
import { useSession } from "../../session.tsx";
import { texts as appTexts } from "../../texts/app.ts";
import { type Alert, byUrgency, findAlerts } from "./alerts.ts";
import { RuntimeCard, RuntimeControls } from "./runtime-card.tsx";
import { TabList } from "./tab-list.tsx";
import { Timeline } from "./timeline.tsx";
import { Usage } from "./usage.tsx";
import { Link } from "wouter";
import { visibleText } from "../../components/visible-text.ts";
import { Fact } from "../../components/fact.tsx";
import { runsFlows } from "../../components/runtime.ts";
import { RevisionAuthor, RevisionLink, RevisionOutcome } from "../../components/revision.tsx";
import { Time } from "../../components/time.tsx";

/** The polling interval of data without events: the load, and replicas. Queries pause while the page is not visible. */
const pollMs = 5_000;

const maxFailingNodes = 200;

export function OverviewPage(): ReactNode {
  const { can } = useSession();
  const runtime = useQuery(RuntimeService.method.getRuntime, {}, { refetchInterval: pollMs });
  const settings = useQuery(
    SettingsService.method.getSettings,
    {},
    { enabled: can("settings.read"), refetchInterval: pollMs },
  );
  const newest = useQuery(RevisionsService.method.listRevisions, { pageSize: 1 }, { enabled: can("revisions.read") });
  const proposals = useQuery(
    ProposalsService.method.listProposals,
    { state: ProposalState.OPEN, pageSize: 100 },
    { enabled: can("proposals.read") },
  );
  const isUp = runsFlows(runtime.data);
  const nodes = useQuery(
    RuntimeService.method.listNodeStatuses,
    { failing: true, pageSize: maxFailingNodes },
    { enabled: isUp, refetchInterval: 2 * pollMs },
  );
  const flows = isUp ? nodes.data?.flows.toSorted(byUrgency) : undefined;
  useRefreshOnErrors();
  const isLive = useIsLiveOrNew();
  const alerts = findAlerts({
    runtime: runtime.data,
    settings: settings.data,
    openProposals: proposals.data?.proposals.length ?? 0,
    isLive: isLive || !can("events.read"),
  });
  return (
    <Page
      title={appTexts.pages.overview}
      actions={runtime.data !== undefined && can("runtime.write") ? <RuntimeControls runtime={runtime.data} /> : null}
    >
      <AlertList alerts={alerts} />
      <Result of={runtime}>
        {(data) => (
          <>
            <div className="overview-cards">
              <RuntimeCard runtime={data} replicas={settings.data?.replicas ?? []} version={settings.data?.version} />
              {can("revisions.read") ? (
                <Result of={newest}>{({ revisions }) => <ActiveRevision revision={revisions[0]} />}</Result>
              ) : null}
            </div>
            <TabList flows={flows} nodes={nodes.data?.nodes ?? []} isUp={isUp} />
            <Timeline />
            <Usage runtime={data} updatedMs={runtime.dataUpdatedAt} />
          </>
        )}
      </Result>
    </Page>
  );
}

const settleMs = 2_500;

/** An error is known at once, the counts follow within seconds: the states of nodes are read again at both times. */
function useRefreshOnErrors(): void {
  const refresh = useRefresh(RuntimeService.method.listNodeStatuses, RuntimeService.method.getRuntime);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEvents(["nodeError"], () => {
    if (timer.current === undefined) {
      void refresh();
      timer.current = setTimeout(() => {
        timer.current = undefined;
        void refresh();
      }, settleMs);
    }
  });
  useEffect(() => () => clearTimeout(timer.current), []);
}

const connectMs = 5_000;

/** False once the page had time to connect, and is not connected. */
function useIsLiveOrNew(): boolean {
  const isLive = useIsLive();
  const [isNew, setNew] = useState(true);
  useEffect(() => {
    const timer = setTimeout(() => setNew(false), connectMs);
    return () => clearTimeout(timer);
  }, []);
  return isLive || isNew;
}

function AlertList({ alerts }: { readonly alerts: readonly Alert[] }): ReactNode {
  return (
    <section aria-label="Alerts" aria-live="polite" className="overview-alerts">
      {alerts.length === 0 ? (
        <p className="muted">No alerts.</p>
      ) : (
        <ul className="plain-list">
          {alerts.map(({ key, tone, title, detail, link }) => (
            <li key={key} className="problem" data-tone={tone}>
              <div>
                <strong>{visibleText(title)}</strong>
                {detail === "" ? null : <p>{visibleText(detail)}</p>}
              </div>
              {link === undefined ? null : (
                <Link href={link.to} className="button">
                  {link.label}
                </Link>
              )}
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

function ActiveRevision({ revision }: { readonly revision: Revision | undefined }): ReactNode {
  const { can } = useSession();
  return (
    <section className="card" aria-labelledby="overview-active">
      <h2 id="overview-active">Active revision</h2>
      {revision === undefined ? (
        <p className="muted">Nothing was deployed yet.</p>
      ) : (
        <>
          <Facts revision={revision} />
          <div className="actions">
            <Link href={`/history/${encodeURIComponent(revision.rev)}`} className="button">
              {can("flows.write") && revision.parent !== "" ? "See the change, and undo it …" : "See the change"}
            </Link>
          </div>
        </>
      )}
    </section>
  );
}

function Facts({ revision }: { readonly revision: Revision }): ReactNode {
  const { rev, message, createTime, nodeCount } = revision;
  return (
    <dl className="facts">
      <Fact name="Revision">
        <RevisionLink rev={rev} /> <RevisionOutcome of={revision} />
      </Fact>
      <Fact name="Message">
        {message === "" ? <span className="muted">no message</span> : <bdi>{visibleText(message)}</bdi>}
      </Fact>
      <Fact name="Deployed by">
        <RevisionAuthor of={revision} />, <Time at={createTime} />
      </Fact>
      <Fact name="Nodes">{nodeCount}</Fact>
    </dl>
  );
}

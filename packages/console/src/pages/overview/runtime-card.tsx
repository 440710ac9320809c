import type { ReactNode } from "react";
import { useMutation } from "@connectrpc/connect-query";
import { type GetRuntimeResponse, type Replica, RuntimeService, RuntimeState, SettingsService } from "@flowgate/client";
import { useRefresh } from "../../api/refresh.ts";
import { ConfirmButton } from "../../components/dialog.tsx";
import { Fact } from "../../components/fact.tsx";
import { RevisionLink, RevisionOutcome } from "../../components/revision.tsx";
import { HealthSign, Sign, StateSign } from "../../components/sign.tsx";
import { type Column, Table } from "../../components/table.tsx";
import { Time } from "../../components/time.tsx";
import { visibleText } from "../../components/visible-text.ts";
import { texts as all } from "../../texts/overview.ts";
import { texts as revisionTexts } from "../../texts/revision.ts";

export function RuntimeControls({ runtime }: { readonly runtime: GetRuntimeResponse }): ReactNode {
  const refresh = useRefresh(
    RuntimeService.method.getRuntime,
    RuntimeService.method.listNodeStatuses,
    SettingsService.method.getSettings,
  );
  const start = useMutation(RuntimeService.method.startFlows);
  const stop = useMutation(RuntimeService.method.stopFlows);
  const restart = useMutation(RuntimeService.method.restartRuntime);
  const state = runtime.runtime?.state ?? RuntimeState.UNSPECIFIED;
  if (!runtime.started) {
    return (
      <ConfirmButton
        label={all.runtime.start}
        title="Start the flows?"
        description="The active revision is started on all replicas."
        confirm={all.runtime.start}
        onConfirm={() => start.mutateAsync({}).then(refresh)}
      />
    );
  }
  const isHere = state !== RuntimeState.STANDBY && state !== RuntimeState.DISABLED;
  return (
    <>
      {isHere ? (
        <ConfirmButton
          label={all.runtime.restart}
          title="Restart the flows?"
          description={
            <>
              <p>The active revision is started in a new process. What is only in the memory of the flows is lost.</p>
              {state === RuntimeState.SAFE ? (
                <p>It also leaves safe mode: the flows are started again, and may end the process again.</p>
              ) : null}
              {runtime.replica === "" ? null : <p>{all.runtime.restartReplica(runtime.replica)}</p>}
            </>
          }
          confirm={all.runtime.restart}
          onConfirm={() => restart.mutateAsync({}).then(refresh)}
        />
      ) : null}
      <ConfirmButton
        label={all.runtime.stop}
        title="Stop the flows?"
        description="Their processes end on all replicas. They remain stopped, even after deployments and restarts of the service, until a user starts them."
        confirm={all.runtime.stop}
        isDangerous
        isPlain
        onConfirm={() => stop.mutateAsync({}).then(refresh)}
      />
    </>
  );
}

export function RuntimeCard({
  runtime: { runtime, rev, health, restarts, replica, stopTime },
  replicas,
  version,
}: {
  readonly runtime: GetRuntimeResponse;
  readonly replicas: readonly Replica[];
  readonly version: string | undefined;
}): ReactNode {
  const port = runtime?.httpPort ?? 0;
  return (
    <section className="card" aria-labelledby="overview-runtime">
      <h2 id="overview-runtime">Flows</h2>
      <dl className="facts">
        <Fact name="State">
          <StateSign state={runtime?.state ?? RuntimeState.UNSPECIFIED} /> <Time at={stopTime} />
        </Fact>
        <Fact name="Health">
          {health === undefined ? null : <HealthSign state={health.state} />}{" "}
          {restarts === 0 ? null : revisionTexts.restarts(restarts)}
        </Fact>
        <Fact name="Reason">{visibleText(runtime?.message ?? "")}</Fact>
        <Fact name="Runtime">{[runtime?.name, runtime?.version].join(" ")}</Fact>
        <Fact name="HTTP-in nodes">{port === 0 ? "" : all.runtime.onPort(port)}</Fact>
        <Fact name="Responding replica">{replica}</Fact>
        <Fact name="Flowgate">{version}</Fact>
      </dl>
      {replicas.length < 2 ? null : (
        <Table label={titles.title} rows={replicas} keyOf={({ name }) => name} empty="" columns={columns(rev)} />
      )}
    </section>
  );
}

const { replicas: titles } = all;

const columns = (active: string): readonly Column<Replica>[] => [
  {
    title: titles.name,
    cell: ({ name, self }) => (
      <>
        {name} {self ? <Sign tone="neutral">{titles.self}</Sign> : null}
      </>
    ),
  },
  { title: titles.state, cell: ({ state }) => <StateSign state={state} /> },
  { title: titles.version, cell: ({ version }) => version },
  {
    title: titles.revision,
    cell: ({ rev, outcome }) =>
      rev === "" ? null : (
        <>
          <RevisionLink rev={rev} /> <RevisionOutcome of={{ outcome, outcomeMessage: "", restarts: 0 }} />
          {rev === active ? null : <div className="muted">{titles.otherRevision}</div>}
        </>
      ),
  },
  { title: titles.reason, cell: ({ message }) => visibleText(message) },
  { title: titles.seen, cell: ({ lastSeenTime }) => <Time at={lastSeenTime} /> },
];

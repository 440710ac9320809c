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

const texts = all.runtime;

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
        label={texts.start}
        title={texts.startTitle}
        description={texts.startDescription}
        confirm={texts.start}
        onConfirm={() => start.mutateAsync({}).then(refresh)}
      />
    );
  }
  const isHere = state !== RuntimeState.STANDBY && state !== RuntimeState.DISABLED;
  return (
    <>
      {isHere ? (
        <ConfirmButton
          label={texts.restart}
          title={texts.restartTitle}
          description={
            <>
              <p>{texts.restartDescription}</p>
              {state === RuntimeState.SAFE ? <p>{texts.leaveSafeMode}</p> : null}
              {runtime.replica === "" ? null : <p>{texts.restartReplica(runtime.replica)}</p>}
            </>
          }
          confirm={texts.restart}
          onConfirm={() => restart.mutateAsync({}).then(refresh)}
        />
      ) : null}
      <ConfirmButton
        label={texts.stop}
        title={texts.stopTitle}
        description={texts.stopDescription}
        confirm={texts.stop}
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
      <h2 id="overview-runtime">{texts.title}</h2>
      <dl className="facts">
        <Fact name={texts.state}>
          <StateSign state={runtime?.state ?? RuntimeState.UNSPECIFIED} /> <Time at={stopTime} />
        </Fact>
        <Fact name={texts.health}>
          {health === undefined ? null : <HealthSign state={health.state} />}{" "}
          {restarts === 0 ? null : revisionTexts.restarts(restarts)}
        </Fact>
        <Fact name={texts.reason}>{visibleText(runtime?.message ?? "")}</Fact>
        <Fact name={texts.runtime}>{[runtime?.name, runtime?.version].join(" ")}</Fact>
        <Fact name={texts.port}>{port === 0 ? "" : texts.onPort(port)}</Fact>
        <Fact name={texts.respondedBy}>{replica}</Fact>
        <Fact name={texts.service}>{version}</Fact>
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

import type { ReactNode } from "react";
import {
  IsolationLevelSchema,
  type Replica,
  type Runtime,
  RuntimeModeSchema,
  RuntimeStateSchema,
} from "@flowgate/client";
import { Link } from "wouter";
import { OutcomeSign, Sign, StateSign } from "../../components/sign.tsx";
import { type Column, Table } from "../../components/table.tsx";
import { Time } from "../../components/time.tsx";
import { visibleText } from "../../components/visible-text.ts";
import {
  isolationMeanings,
  modeTexts,
  replicaFields,
  runtimeFields,
  stateMeanings,
  texts,
} from "../../texts/settings.ts";
import { Fact } from "./fact.tsx";
import { nameOfValue } from "./names.ts";

export function RuntimeFacts({ of: runtime }: { readonly of: Runtime }): ReactNode {
  const { name, version, state, httpPort, message, isolation } = runtime;
  const fields = runtimeFields as Record<keyof typeof runtime, { readonly title: string; readonly meaning: string }>;
  const stateName = nameOfValue(RuntimeStateSchema, state);
  const level = nameOfValue(IsolationLevelSchema, isolation?.level ?? 0);
  return (
    <dl className="settings-facts">
      <Fact of={{ ...fields.state, meaning: stateMeanings[stateName] ?? texts.unknownState }}>
        <StateSign state={state} />
      </Fact>
      {message === undefined ? null : <Fact of={fields.message}>{visibleText(message)}</Fact>}
      <Fact of={fields.name}>{visibleText(name)}</Fact>
      <Fact of={fields.version}>{visibleText(version)}</Fact>
      <Fact of={fields.httpPort}>{httpPort === 0 ? texts.noPort : httpPort}</Fact>
      {isolation === undefined ? null : (
        <Fact of={{ ...fields.isolation, meaning: isolationMeanings[level] ?? texts.unknownState }}>
          {level}
          {isolation.user === undefined ? null : ` (${isolation.user})`}
          {isolation.message === undefined ? null : <p>{visibleText(isolation.message)}</p>}
        </Fact>
      )}
    </dl>
  );
}

/** All replicas, with what their columns mean. */
export function ReplicaTable({ replicas }: { readonly replicas: readonly Replica[] }): ReactNode {
  return (
    <>
      <p className="muted">{texts.replicasHint}</p>
      <Table label={texts.replicas} columns={columns} rows={replicas} keyOf={({ name }) => name} empty={texts.none} />
      <dl className="settings-facts">
        {columns.map(({ title }) => (
          <Fact key={title} of={{ title, meaning: "" }}>
            {Object.values(replicaFields).find((field) => field.title === title)?.meaning}
          </Fact>
        ))}
      </dl>
    </>
  );
}

const titleOf = (field: keyof Replica): string => replicaFields[field]?.title ?? field;

const columns: readonly Column<Replica>[] = [
  {
    title: titleOf("name"),
    cell: ({ name, self }) => (
      <>
        {visibleText(name)} {self ? <Sign tone="info">{texts.self}</Sign> : null}
      </>
    ),
  },
  { title: titleOf("version"), cell: ({ version }) => visibleText(version) },
  { title: titleOf("mode"), cell: ({ mode }) => modeTexts[nameOfValue(RuntimeModeSchema, mode)] ?? "" },
  { title: titleOf("state"), cell: ({ state }) => <StateSign state={state} /> },
  {
    title: titleOf("rev"),
    cell: ({ rev }) =>
      rev === "" ? (
        ""
      ) : (
        <Link href={`/history/${encodeURIComponent(rev)}`}>
          <code>{visibleText(rev.slice(0, 8))}</code>
        </Link>
      ),
  },
  { title: titleOf("outcome"), cell: ({ rev, outcome }) => (rev === "" ? "" : <OutcomeSign outcome={outcome} />) },
  { title: titleOf("message"), cell: ({ message }) => visibleText(message) },
  { title: titleOf("lastSeenTime"), cell: ({ lastSeenTime }) => <Time at={lastSeenTime} /> },
];

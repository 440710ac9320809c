import "./settings.css";
import type { ReactNode } from "react";
import type { MessageShape } from "@bufbuild/protobuf";
import { useQuery } from "@connectrpc/connect-query";
import {
  AuthService,
  type GetSettingsResponse,
  IsolationLevelSchema,
  type Replica,
  type Runtime,
  RuntimeModeSchema,
  RuntimeStateSchema,
  SettingsService,
} from "@flowgate/client";
import { docsUrl, metricsUrl, openApiUrl } from "../../api/paths.ts";
import { Page, Result } from "../../components/page.tsx";
import { visibleText } from "../../components/visible-text.ts";
import {
  isolationMeanings,
  modeTexts,
  replicaFields,
  runtimeFields,
  serviceFields,
  stateMeanings,
  texts,
  userFields,
} from "../../texts/settings.ts";
import { OutcomeSign, Sign, StateSign } from "../../components/sign.tsx";
import { type Column, Table } from "../../components/table.tsx";
import { useSession } from "../../session.tsx";
import { explainPermission, permissionTexts } from "../../texts/permissions.ts";
import { grantOf, nameOfValue } from "./values.ts";
import { Link } from "wouter";
import { Time } from "../../components/time.tsx";

export function SettingsPage(): ReactNode {
  const settings = useQuery(SettingsService.method.getSettings, {});
  const identity = useQuery(AuthService.method.getIdentity, {});
  return (
    <Page title="Settings">
      <p className="muted">
        The state of this service, and what you may do. Settings are changed in its configuration file.
      </p>
      <Result of={settings}>
        {({ version, apiVersions, runtime, replicas, roles }) => (
          <>
            <section className="card">
              <h2>Service</h2>
              <dl className="settings-facts">
                <Fact of={serviceFields.version}>{visibleText(version)}</Fact>
                <Fact of={serviceFields.apiVersions}>{visibleText(apiVersions.join(", "))}</Fact>
              </dl>
            </section>
            {runtime === undefined ? null : (
              <section className="card">
                <h2>Flow runtime</h2>
                <RuntimeFacts of={runtime} />
              </section>
            )}
            {replicas.length === 0 ? null : (
              <section className="card">
                <h2>{texts.replicas}</h2>
                <ReplicaTable replicas={replicas} />
              </section>
            )}
            {roles.length === 0 ? null : (
              <section className="card">
                <h2>{texts.roles}</h2>
                <p className="muted">
                  Sets of permissions, whose names the configuration can grant and tokens can be limited to.
                </p>
                <RoleTable roles={roles} />
              </section>
            )}
          </>
        )}
      </Result>
      <section className="card">
        <h2>API</h2>
        <Links />
      </section>
      <section className="card">
        <h2>You</h2>
        <Result of={identity}>{(caller) => <Caller of={caller} />}</Result>
      </section>
    </Page>
  );
}

function Links(): ReactNode {
  return (
    <dl className="settings-facts">
      <Fact of={{ title: "API reference", meaning: "All operations with their parameters and examples." }}>
        <a href={docsUrl}>{docsUrl}</a>
      </Fact>
      <Fact of={{ title: "OpenAPI document", meaning: "The description of the HTTP API, to generate clients from." }}>
        <a href={openApiUrl}>{openApiUrl}</a>
      </Fact>
      <Fact
        of={{
          title: "Metrics",
          meaning:
            "For Prometheus: GET /metrics, with an access token that has the permission metrics.read, or without one on the port metrics.port of the configuration.",
        }}
      >
        <code>{metricsUrl}</code>
      </Fact>
    </dl>
  );
}

type Identity = MessageShape<(typeof AuthService.method.getIdentity)["output"]>;

function Caller({ of: { username, permissions, tokenId, tokenName } }: { readonly of: Identity }): ReactNode {
  return (
    <>
      <dl className="settings-facts">
        {username === "" ? (
          <Fact
            of={{
              title: userFields.username.title,
              meaning: "adminAuth is not configured: every client that reaches the port may call every operation.",
            }}
          >
            No one has to sign in
          </Fact>
        ) : (
          <Fact of={userFields.username}>{visibleText(username)}</Fact>
        )}
        {tokenId === "" ? null : (
          <Fact of={userFields.token}>
            {visibleText(tokenName)} <code>{visibleText(tokenId)}</code>
          </Fact>
        )}
        <Fact of={userFields.permissions}>
          <Granted permissions={permissions} />
        </Fact>
      </dl>
      <PermissionTable granted={permissions} />
    </>
  );
}

type Row = { readonly name: string; readonly meaning: string; readonly grant: ReturnType<typeof grantOf> };

const columns: readonly Column<Row>[] = [
  { title: "Permission", cell: ({ name }) => <code>{name}</code> },
  { title: "You have it", cell: ({ grant }) => <Grant grant={grant} /> },
  { title: texts.meaning, cell: ({ meaning }) => meaning },
];

type Role = GetSettingsResponse["roles"][number];

const roleColumns: readonly Column<Role>[] = [
  { title: "Role", cell: ({ name }) => <code>{visibleText(name)}</code> },
  { title: texts.meaning, cell: ({ permissions }) => <Granted permissions={permissions} /> },
];

function RoleTable({ roles }: { readonly roles: readonly Role[] }): ReactNode {
  return <Table label={texts.roles} columns={roleColumns} rows={roles} keyOf={({ name }) => name} empty={null} />;
}

function Granted({ permissions }: { readonly permissions: readonly string[] }): ReactNode {
  return permissions.length === 0 ? (
    texts.none
  ) : (
    <ul className="plain-list">
      {permissions.map((name) => (
        <li key={name}>
          <code>{visibleText(name)}</code>{" "}
          <span className="muted">
            {visibleText(explainPermission(name) ?? "A permission that this page does not know.")}
          </span>
        </li>
      ))}
    </ul>
  );
}

function PermissionTable({ granted }: { readonly granted: readonly string[] }): ReactNode {
  const { can } = useSession();
  const rows = Object.entries(permissionTexts).map(([name, meaning]) => ({
    name,
    meaning,
    grant: grantOf(name, granted, can(name)),
  }));
  return <Table label="All permissions" columns={columns} rows={rows} keyOf={({ name }) => name} empty={null} />;
}

function Grant({ grant }: Pick<Row, "grant">): ReactNode {
  switch (grant) {
    case "all":
      return <Sign tone="good">yes</Sign>;
    case "some tabs":
      return <Sign tone="info">on some tabs</Sign>;
    case "none":
      return <Sign tone="neutral">no</Sign>;
  }
}

function Fact({
  of: { title, meaning },
  children,
}: {
  readonly of: { readonly title: string; readonly meaning: string };
  readonly children: ReactNode;
}): ReactNode {
  return (
    <div className="settings-fact">
      <dt>{title}</dt>
      <dd>
        <div>{children}</div>
        {meaning === "" ? null : <p className="muted">{meaning}</p>}
      </dd>
    </div>
  );
}

function RuntimeFacts({ of: runtime }: { readonly of: Runtime }): ReactNode {
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
      <Fact of={fields.httpPort}>{httpPort === 0 ? "not open" : httpPort}</Fact>
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

function ReplicaTable({ replicas }: { readonly replicas: readonly Replica[] }): ReactNode {
  return (
    <>
      <p className="muted">
        The processes that use the same store. A replica that has not been seen for a while may have ended.
      </p>
      <Table
        label={texts.replicas}
        columns={replicaColumns}
        rows={replicas}
        keyOf={({ name }) => name}
        empty={texts.none}
      />
      <dl className="settings-facts">
        {replicaColumns.map(({ title }) => (
          <Fact key={title} of={{ title, meaning: "" }}>
            {Object.values(replicaFields).find((field) => field.title === title)?.meaning}
          </Fact>
        ))}
      </dl>
    </>
  );
}

const titleOf = (field: keyof Replica): string => replicaFields[field]?.title ?? field;

const replicaColumns: readonly Column<Replica>[] = [
  {
    title: titleOf("name"),
    cell: ({ name, self }) => (
      <>
        {visibleText(name)} {self ? <Sign tone="info">this one</Sign> : null}
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

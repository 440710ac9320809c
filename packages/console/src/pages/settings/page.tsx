import "./settings.css";
import type { ReactNode } from "react";
import type { MessageShape } from "@bufbuild/protobuf";
import { useQuery } from "@connectrpc/connect-query";
import { AuthService, SettingsService } from "@flowgate/client";
import { docsUrl, metricsUrl, openApiUrl } from "../../api/paths.ts";
import { Page, Result } from "../../components/page.tsx";
import { visibleText } from "../../components/visible-text.ts";
import { serviceFields, texts, userFields } from "../../texts/settings.ts";
import { Fact } from "./fact.tsx";
import { Granted, PermissionTable, RoleTable } from "./permission-table.tsx";
import { ReplicaTable, RuntimeFacts } from "./runtime-facts.tsx";

export function SettingsPage(): ReactNode {
  const settings = useQuery(SettingsService.method.getSettings, {});
  const identity = useQuery(AuthService.method.getIdentity, {});
  return (
    <Page title={texts.title}>
      <p className="muted">{texts.intro}</p>
      <Result of={settings}>
        {({ version, apiVersions, runtime, replicas, roles }) => (
          <>
            <section className="card">
              <h2>{texts.service}</h2>
              <dl className="settings-facts">
                <Fact of={serviceFields.version}>{visibleText(version)}</Fact>
                <Fact of={serviceFields.apiVersions}>{visibleText(apiVersions.join(", "))}</Fact>
              </dl>
            </section>
            {runtime === undefined ? null : (
              <section className="card">
                <h2>{texts.runtime}</h2>
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
                <p className="muted">{texts.rolesHint}</p>
                <RoleTable roles={roles} />
              </section>
            )}
          </>
        )}
      </Result>
      <section className="card">
        <h2>{texts.links}</h2>
        <Links />
      </section>
      <section className="card">
        <h2>{texts.you}</h2>
        <Result of={identity}>{(caller) => <Caller of={caller} />}</Result>
      </section>
    </Page>
  );
}

function Links(): ReactNode {
  return (
    <dl className="settings-facts">
      <Fact of={{ title: texts.apiReference, meaning: texts.apiReferenceHint }}>
        <a href={docsUrl}>{docsUrl}</a>
      </Fact>
      <Fact of={{ title: texts.openApi, meaning: texts.openApiHint }}>
        <a href={openApiUrl}>{openApiUrl}</a>
      </Fact>
      <Fact of={{ title: texts.metrics, meaning: texts.metricsHint }}>
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
          <Fact of={{ title: userFields.username.title, meaning: texts.anonymousHint }}>{texts.anonymous}</Fact>
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

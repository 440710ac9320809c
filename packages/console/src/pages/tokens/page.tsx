import "./tokens.css";
import type { ReactNode } from "react";
import { callUnaryMethod, useInfiniteQuery, useQuery, useTransport } from "@connectrpc/connect-query";
import { AuthService, type Token, TokensService } from "@flowgate/client";
import { useRefresh } from "../../api/refresh.ts";
import { ConfirmButton } from "../../components/dialog.tsx";
import { TextFilter, useFilters } from "../../components/filters.tsx";
import { Page, Result } from "../../components/page.tsx";
import { Sign } from "../../components/sign.tsx";
import { byPage, type Column, LoadMore, Table } from "../../components/table.tsx";
import { Time } from "../../components/time.tsx";
import { visibleText } from "../../components/visible-text.ts";
import { useSession } from "../../session.tsx";
import { texts } from "../../texts/tokens.ts";
import { CreateToken } from "./create-token.tsx";

const pageSize = 100;

export function TokensPage(): ReactNode {
  const { can } = useSession();
  const [filters, setFilters] = useFilters(["user"]);
  const list = useInfiniteQuery(
    TokensService.method.listTokens,
    { pageSize, pageToken: "", user: filters.user },
    byPage,
  );
  const identity = useQuery(AuthService.method.getIdentity, {});
  const tokens = list.data?.pages.flatMap((page) => page.tokens) ?? [];
  return (
    <Page title="Tokens" actions={can("tokens.write") ? <CreateToken /> : undefined}>
      <p className="muted">
        Access tokens of programs, and the logins and browser sessions of people. Revoking one ends it at once. The
        secrets are not stored.
      </p>
      <div className="filters">
        <TextFilter
          label={texts.user}
          value={filters.user}
          suggestions={[...new Set(tokens.map(({ user }) => user))]}
          onChange={(user) => setFilters({ user })}
        />
        {can("tokens.write") && filters.user !== "" ? <RevokeAll user={filters.user} /> : null}
      </div>
      <Result of={list}>
        {() => (
          <>
            <Table
              label="Access tokens"
              columns={columns(identity.data?.tokenId ?? "", can("tokens.write"))}
              rows={tokens}
              keyOf={({ id }) => id}
              empty="There are no such tokens."
            />
            <LoadMore of={list} />
          </>
        )}
      </Result>
    </Page>
  );
}

function columns(ownId: string, canRevoke: boolean): readonly Column<Token>[] {
  const all: readonly Column<Token>[] = [
    { title: "Name", cell: (token) => <Name token={token} isOwn={token.id === ownId} /> },
    { title: texts.user, cell: ({ user }) => visibleText(user) },
    { title: "Permissions", cell: ({ scope }) => <Scope scope={scope} /> },
    { title: "Created", cell: ({ createTime }) => <Time at={createTime} /> },
    {
      title: "Last used",
      cell: ({ lastUseTime }) =>
        lastUseTime === undefined ? <span className="muted">not yet</span> : <Time at={lastUseTime} />,
    },
    { title: "Expires", cell: ({ expireTime }) => <Time at={expireTime} /> },
  ];
  return canRevoke
    ? [
        ...all,
        { title: "Actions", isUntitled: true, cell: (token) => <Revoke token={token} isOwn={token.id === ownId} /> },
      ]
    : all;
}

function nameOf({ name, clientId }: Token): string {
  if (name !== "") {
    return visibleText(name);
  }
  return clientId === "browser" ? "Browser session" : texts.login(visibleText(clientId));
}

function Name({ token, isOwn }: { readonly token: Token; readonly isOwn: boolean }): ReactNode {
  return (
    <span className="tokens-name">
      <span className={token.name === "" ? "muted" : ""}>{nameOf(token)}</span>
      {isOwn ? <Sign tone="info">in use here</Sign> : null}
      {token.valid ? null : (
        <span title="The user was removed, or has another password.">
          <Sign tone="bad">invalid</Sign>
        </span>
      )}
    </span>
  );
}

const shownPermissions = 3;

function Scope({ scope }: { readonly scope: string }): ReactNode {
  const names = visibleText(scope)
    .split(" ")
    .filter((name) => name !== "");
  if (names.length <= shownPermissions) {
    return <code>{names.join(" ")}</code>;
  }
  return (
    <details>
      <summary>{texts.showAll(names.length)}</summary>
      <ul className="tokens-permissions">
        {names.map((name) => (
          <li key={name}>
            <code>{name}</code>
          </li>
        ))}
      </ul>
    </details>
  );
}

function Revoke({ token, isOwn }: { readonly token: Token; readonly isOwn: boolean }): ReactNode {
  const transport = useTransport();
  const refresh = useRefresh(TokensService.method.listTokens, AuthService.method.getIdentity);
  const name = nameOf(token);
  return (
    <ConfirmButton
      label={
        <>
          {texts.revoke} <span className="visually-hidden">{name}</span>
        </>
      }
      title={texts.revokeTitle(name)}
      description={`${texts.revokeHint(token.user)} ${isOwn ? texts.revokeOwn : ""}`}
      confirm={texts.revoke}
      isDangerous
      isPlain
      onConfirm={async () => {
        await callUnaryMethod(transport, TokensService.method.deleteToken, { id: token.id });
        await refresh();
      }}
    />
  );
}

function RevokeAll({ user }: { readonly user: string }): ReactNode {
  const transport = useTransport();
  const refresh = useRefresh(TokensService.method.listTokens, AuthService.method.getIdentity);
  const { username } = useSession();
  return (
    <ConfirmButton
      label={texts.revokeAllOf(user)}
      title={`${texts.revokeAllOf(user)}?`}
      description={`${texts.revokeAllHint(user)} ${user === username ? texts.revokeOwn : ""}`}
      confirm={texts.revoke}
      isDangerous
      isPlain
      onConfirm={async () => {
        await callUnaryMethod(transport, TokensService.method.revokeTokens, { target: { case: "user", value: user } });
        await refresh();
      }}
    />
  );
}

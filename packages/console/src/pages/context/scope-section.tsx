import { type ReactNode, useState } from "react";
import { type JsonValue, toJson } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import { callUnaryMethod, useQuery, useTransport } from "@connectrpc/connect-query";
import { ContextService, type GetContextResponse } from "@flowgate/client";
import { Link } from "wouter";
import { useRefresh } from "../../api/refresh.ts";
import { ConfirmButton } from "../../components/dialog.tsx";
import { JsonView } from "../../components/json-view.tsx";
import { Result } from "../../components/page.tsx";
import { visibleText } from "../../components/visible-text.ts";
import { useSession } from "../../session.tsx";
import { texts } from "../../texts/context.ts";
import { EditValue } from "./edit-value.tsx";
import { placeOf, type ScopeKeys } from "./scopes.ts";

export function ScopeSection({
  of: { scope, store, kind, label, path, keys, isTruncated },
  isStoreShown,
}: {
  readonly of: ScopeKeys;
  readonly isStoreShown: boolean;
}): ReactNode {
  const title = kind === "global" ? texts.global : visibleText(label);
  return (
    <section className="card context-scope" aria-label={texts.keys(title)}>
      <div className="context-heading">
        <h2>{title}</h2>
        <span className="muted">
          {describeKind(kind, path)}
          {isStoreShown ? `, ${visibleText(texts.inStore(store))}` : ""}
        </span>
        {path === undefined ? null : <Link href={path}>Show in the flows</Link>}
      </div>
      <ul className="context-keys plain-list">
        {keys.map((key) => (
          <Entry key={key} name={key} place={placeOf(scope, key)} store={store} scopeTitle={title} />
        ))}
      </ul>
      {isTruncated ? <p className="muted">There are more keys than are listed here.</p> : null}
    </section>
  );
}

function describeKind(kind: ScopeKeys["kind"], path: string | undefined): string {
  if (kind === "global") {
    return "for all flows";
  }
  // The flows have no tab with the id of an instance, but a node.
  return kind === "node" ? "node" : path?.includes("?node=") === true ? "instance of a subflow" : "tab";
}

/** A key. Its value is read when it is asked for, and forgotten when it is hidden. */
function Entry({
  name,
  place,
  store,
  scopeTitle,
}: {
  readonly name: string;
  readonly place: string | undefined;
  readonly store: string;
  readonly scopeTitle: string;
}): ReactNode {
  const [isShown, setShown] = useState(false);
  const shownName = visibleText(name);
  return (
    <li>
      <div className="context-entry">
        <code className="context-key">{shownName}</code>
        {place === undefined ? (
          <span className="muted">
            {"This key has both kinds of quotation marks, so that its value can't be named."}
          </span>
        ) : (
          <button type="button" aria-expanded={isShown} onClick={() => setShown(!isShown)}>
            {isShown ? "Hide" : "Show"} <span className="visually-hidden">{shownName}</span>
          </button>
        )}
      </div>
      {isShown && place !== undefined ? (
        <Value name={shownName} place={place} store={store} scopeTitle={scopeTitle} />
      ) : null}
    </li>
  );
}

type Place = { readonly name: string; readonly place: string; readonly store: string };

function Value({ name, place, store, scopeTitle }: Place & { readonly scopeTitle: string }): ReactNode {
  const { can } = useSession();
  const query = useQuery(
    ContextService.method.getContext,
    { scope: place, store },
    { gcTime: 0, staleTime: 0, refetchOnWindowFocus: false },
  );
  return (
    <div className="context-value">
      <Result of={query}>
        {(response) => {
          const value = jsonOf(response);
          return (
            <>
              <div className="muted">{visibleText(response.format)}</div>
              <JsonView value={value} />
              {response.truncated ? (
                <p className="muted">A part is missing, or was replaced by a text such as [function] or [redacted].</p>
              ) : null}
              {can("context.write") ? (
                <div className="actions">
                  <Edit name={name} place={place} store={store} value={response.truncated ? undefined : value} />
                  <Remove name={name} place={place} store={store} scopeTitle={scopeTitle} />
                </div>
              ) : null}
            </>
          );
        }}
      </Result>
    </div>
  );
}

function jsonOf({ value }: GetContextResponse): JsonValue {
  return value === undefined ? null : toJson(ValueSchema, value);
}

/** `value` is undefined if it is not known completely. */
function Edit({ name, place, store, value }: Place & { readonly value: JsonValue | undefined }): ReactNode {
  const [isOpen, setOpen] = useState(false);
  const refresh = useRefresh(ContextService.method.getContext);
  return (
    <>
      <button type="button" onClick={() => setOpen(true)}>
        Change <span className="visually-hidden">{name}</span>
      </button>
      {isOpen ? (
        <EditValue
          title={texts.editTitle(name)}
          description={
            value === undefined
              ? `The value can't be shown completely: what you write replaces all of it. ${texts.editHint}`
              : texts.editHint
          }
          json={value === undefined ? "" : JSON.stringify(value, undefined, 2)}
          store={store}
          place={place}
          onSaved={refresh}
          onClose={() => setOpen(false)}
        />
      ) : null}
    </>
  );
}

function Remove({ name, place, store, scopeTitle }: Place & { readonly scopeTitle: string }): ReactNode {
  const transport = useTransport();
  const refresh = useRefresh(ContextService.method.listContext);
  return (
    <ConfirmButton
      label={
        <>
          {texts.remove} <span className="visually-hidden">{name}</span>
        </>
      }
      title={texts.removeTitle(name)}
      description={texts.removeHint(scopeTitle)}
      confirm={texts.remove}
      isDangerous
      isPlain
      onConfirm={async () => {
        await callUnaryMethod(transport, ContextService.method.deleteContext, { scope: place, store });
        await refresh();
      }}
    />
  );
}

import "./context.css";
import { type ReactNode, useState } from "react";
import { useQuery } from "@connectrpc/connect-query";
import { ContextService, FlowsService, type Node } from "@flowgate/client";
import { useRefresh } from "../../api/refresh.ts";
import { SelectFilter, TextFilter, useFilters } from "../../components/filters.tsx";
import { Page, Result } from "../../components/page.tsx";
import { useSession } from "../../session.tsx";
import { texts } from "../../texts/context.ts";
import { ScopeSection } from "./scope-section.tsx";
import { describeScopes, readTabs, type ScopeKeys, searchScopes } from "./scopes.ts";
import { Field } from "../../components/field.tsx";
import { visibleText } from "../../components/visible-text.ts";
import { EditValue } from "./edit-value.tsx";

const noNodes: readonly Node[] = [];

export function ContextPage(): ReactNode {
  const { can } = useSession();
  const [filters, setFilters] = useFilters(["store", "search"]);
  const list = useQuery(ContextService.method.listContext, { store: filters.store });
  // For the names of tabs and nodes.
  const flows = useQuery(FlowsService.method.getFlows, {}, { enabled: can("flows.read") });
  const nodes = flows.data?.flows ?? noNodes;
  const refresh = useRefresh(ContextService.method.listContext, ContextService.method.getContext);
  return (
    <Page
      title="Context"
      actions={
        <>
          <button type="button" onClick={() => void refresh()}>
            Refresh
          </button>
          {can("context.write") && list.data !== undefined ? (
            <AddValue
              targets={targetsOf(describeScopes(list.data.scopes, nodes), nodes)}
              stores={list.data.stores}
              onSaved={refresh}
            />
          ) : null}
        </>
      }
    >
      <p className="muted">
        What the flows keep between messages. Only the keys are listed: values can be the data that flows process, and
        are read when you ask for them.
      </p>
      <div className="filters">
        <TextFilter label="Search" value={filters.search} onChange={(search) => setFilters({ search })} />
        {(list.data?.stores.length ?? 0) < 2 && filters.store === "" ? null : (
          <SelectFilter
            label={texts.store}
            value={filters.store}
            all="All stores"
            options={list.data?.stores.map((store) => ({ value: store, label: store })) ?? []}
            onChange={(store) => setFilters({ store })}
          />
        )}
      </div>
      <Result of={list}>
        {({ scopes, stores, truncated }) => {
          const found = searchScopes(describeScopes(scopes, nodes), filters.search);
          return (
            <>
              {found.length === 0 ? (
                <p className="muted">{scopes.length === 0 ? "There are no values." : "There are no such keys."}</p>
              ) : null}
              {found.map((each) => (
                <ScopeSection key={`${each.store} ${each.scope}`} of={each} isStoreShown={stores.length > 1} />
              ))}
              {truncated ? (
                <p className="muted">There are more scopes than are listed here. Choose a store to see others.</p>
              ) : null}
            </>
          );
        }}
      </Result>
    </Page>
  );
}

function targetsOf(scopes: readonly ScopeKeys[], nodes: readonly Node[]): readonly Target[] {
  const tabs = Array.from(readTabs(nodes), ([id, label]) => ({ scope: `flow/${id.replaceAll("/", "%2F")}`, label }));
  const all = [
    { scope: "global", label: texts.global },
    ...tabs,
    ...scopes.filter(({ kind }) => kind !== "global").map(({ scope, label }) => ({ scope, label })),
  ];
  return [...new Map(all.map((target) => [target.scope, target])).values()];
}

type Target = { readonly scope: string; readonly label: string };

function AddValue({
  targets,
  stores,
  onSaved,
}: {
  readonly targets: readonly Target[];
  readonly stores: readonly string[];
  readonly onSaved: () => Promise<unknown>;
}): ReactNode {
  const [isOpen, setOpen] = useState(false);
  const [scope, setScope] = useState("global");
  const [store, setStore] = useState(stores[0] ?? "");
  const [key, setKey] = useState("");
  return (
    <>
      <button type="button" onClick={() => setOpen(true)}>
        Set a value
      </button>
      {isOpen ? (
        <EditValue
          title="Set a value"
          description={texts.editHint}
          json=""
          store={store}
          place={key.trim() === "" ? "" : `${scope}/${key.trim()}`}
          onSaved={onSaved}
          onClose={() => setOpen(false)}
        >
          <Field label="Scope">
            {(attributes) => (
              <select {...attributes} value={scope} onChange={(event) => setScope(event.target.value)}>
                {targets.map((target) => (
                  <option key={target.scope} value={target.scope}>
                    {visibleText(target.label)}
                  </option>
                ))}
              </select>
            )}
          </Field>
          {stores.length < 2 ? null : (
            <Field label={texts.store}>
              {(attributes) => (
                <select {...attributes} value={store} onChange={(event) => setStore(event.target.value)}>
                  {stores.map((each) => (
                    <option key={each}>{each}</option>
                  ))}
                </select>
              )}
            </Field>
          )}
          <Field label="Key" hint="A property such as counter or names[0].first.">
            {(attributes) => (
              <input
                {...attributes}
                required
                autoComplete="off"
                autoCapitalize="none"
                spellCheck={false}
                value={key}
                onChange={(event) => setKey(event.target.value)}
              />
            )}
          </Field>
        </EditValue>
      ) : null}
    </>
  );
}

import "./context.css";
import type { ReactNode } from "react";
import { useQuery } from "@connectrpc/connect-query";
import { ContextService, FlowsService, type Node } from "@flowgate/client";
import { useRefresh } from "../../api/refresh.ts";
import { SelectFilter, TextFilter, useFilters } from "../../components/filters.tsx";
import { Page, Result } from "../../components/page.tsx";
import { useSession } from "../../session.tsx";
import { texts } from "../../texts/context.ts";
import { AddValue, type Target } from "./add-value.tsx";
import { ScopeSection } from "./scope-section.tsx";
import { describeScopes, type ScopeKeys, searchScopes } from "./scopes.ts";

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
      title={texts.title}
      actions={
        <>
          <button type="button" onClick={() => void refresh()}>
            {texts.refresh}
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
      <p className="muted">{texts.intro}</p>
      <div className="filters">
        <TextFilter label={texts.search} value={filters.search} onChange={(search) => setFilters({ search })} />
        {(list.data?.stores.length ?? 0) < 2 && filters.store === "" ? null : (
          <SelectFilter
            label={texts.store}
            value={filters.store}
            all={texts.allStores}
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
                <p className="muted">{scopes.length === 0 ? texts.none : texts.noneFound}</p>
              ) : null}
              {found.map((each) => (
                <ScopeSection key={`${each.store} ${each.scope}`} of={each} isStoreShown={stores.length > 1} />
              ))}
              {truncated ? <p className="muted">{texts.moreScopes}</p> : null}
            </>
          );
        }}
      </Result>
    </Page>
  );
}

/** Where values can be set: in scopes that have some, and in all tabs. */
function targetsOf(scopes: readonly ScopeKeys[], nodes: readonly Node[]): readonly Target[] {
  const tabs = nodes
    .filter(({ type }) => type === "tab")
    .map(({ id, label }) => ({ scope: `flow/${id.replaceAll("/", "%2F")}`, label: label || id }));
  const all = [
    { scope: "global", label: texts.global },
    ...tabs,
    ...scopes.filter(({ kind }) => kind !== "global").map(({ scope, label }) => ({ scope, label })),
  ];
  return [...new Map(all.map((target) => [target.scope, target])).values()];
}

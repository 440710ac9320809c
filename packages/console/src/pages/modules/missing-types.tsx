import type { ReactNode } from "react";
import { useQuery } from "@connectrpc/connect-query";
import { FlowsService, type Module } from "@flowgate/client";
import { type Column, Table } from "../../components/table.tsx";
import { visibleText } from "../../components/visible-text.ts";
import { useSession } from "../../session.tsx";
import { texts } from "../../texts/modules.ts";
import type { Change } from "./change-dialog.tsx";
import { InstallModule } from "./install-module.tsx";
import { describeMissing, findNamedModules, type MissingType } from "./requirements.ts";

/** What the flows lack, and which modules could define it. */
export function MissingTypes({
  types,
  modules,
  onChange,
}: {
  readonly types: readonly string[];
  readonly modules: readonly Module[];
  readonly onChange: (change: Change) => void;
}): ReactNode {
  const { can } = useSession();
  const flows = useQuery(FlowsService.method.getFlows, {}, { enabled: can("flows.read") });
  const nodes = flows.data?.flows ?? [];
  const named = findNamedModules(nodes, modules);
  return (
    <section className="card modules-missing" aria-labelledby="missing-types">
      <h2 id="missing-types">{texts.missing}</h2>
      <p>{texts.missingHint}</p>
      <Table
        label={texts.missingTable}
        columns={columns}
        rows={describeMissing(types, modules, nodes)}
        keyOf={({ type }) => type}
        empty={null}
      />
      {named.length === 0 ? null : (
        <>
          <p>{texts.named}</p>
          <ul className="modules-named">
            {named.map(({ name, version }) => (
              <li key={name}>
                <code>{visibleText(version === "" ? name : `${name}@${version}`)}</code>
                {can("modules.write") ? (
                  <InstallModule
                    name={name}
                    version={version}
                    label={
                      <>
                        {texts.install} <span className="visually-hidden">{name}</span>
                      </>
                    }
                    onChange={onChange}
                  />
                ) : null}
              </li>
            ))}
          </ul>
        </>
      )}
    </section>
  );
}

const columns: readonly Column<MissingType>[] = [
  { title: texts.missingType, cell: ({ type }) => <code>{visibleText(type)}</code> },
  { title: texts.missingNodes, cell: ({ nodes }) => (nodes === 0 ? "" : nodes) },
  {
    title: texts.providedBy,
    cell: ({ disabledModule }) =>
      disabledModule === undefined ? (
        <span className="muted">{texts.providerUnknown}</span>
      ) : (
        visibleText(texts.providedByDisabled(disabledModule))
      ),
  },
];

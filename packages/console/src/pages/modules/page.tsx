import "./modules.css";
import { type ReactNode, useState } from "react";
import { useQuery } from "@connectrpc/connect-query";
import { FlowsService, type Module, ModulesService } from "@flowgate/client";
import { Link } from "wouter";
import { tabPath } from "../../components/node-path.ts";
import { Page, Result } from "../../components/page.tsx";
import { Sign } from "../../components/sign.tsx";
import { type Column, Table } from "../../components/table.tsx";
import { visibleText } from "../../components/visible-text.ts";
import { useSession } from "../../session.tsx";
import { texts } from "../../texts/modules.ts";
import { type Change, Progress } from "./change-dialog.tsx";
import { ChangeResult } from "./change-result.tsx";
import { InstallModule } from "./install-module.tsx";
import { MissingTypes } from "./missing-types.tsx";
import { ModuleActions } from "./module-actions.tsx";

export function ModulesPage(): ReactNode {
  const { can } = useSession();
  const list = useQuery(ModulesService.method.listModules, {});
  const [change, setChange] = useState<Change>();
  return (
    <Page
      title={texts.title}
      actions={can("modules.write") ? <InstallModule isMain onChange={setChange} /> : undefined}
    >
      <p className="muted">{texts.intro}</p>
      <Progress />
      {change === undefined ? null : (
        <ChangeResult of={change} onChange={setChange} onClose={() => setChange(undefined)} />
      )}
      <Result of={list}>
        {({ modules, missingTypes, replica }) => (
          <>
            {replica === "" ? null : <p>{visibleText(texts.ofReplica(replica))}</p>}
            {missingTypes.length === 0 ? null : (
              <MissingTypes types={missingTypes} modules={modules} onChange={setChange} />
            )}
            <Table
              label={texts.table}
              columns={can("modules.write") ? [...columns, actions(setChange)] : columns}
              rows={modules}
              keyOf={({ name }) => name}
              empty={texts.none}
            />
          </>
        )}
      </Result>
    </Page>
  );
}

const columns: readonly Column<Module>[] = [
  { title: texts.module, cell: (module) => <Name of={module} /> },
  { title: texts.state, cell: (module) => <State of={module} /> },
  { title: texts.types, cell: ({ types }) => <Types types={types} /> },
  { title: texts.usedBy, cell: (module) => <Uses of={module} /> },
];

function actions(onChange: (change: Change) => void): Column<Module> {
  return {
    title: texts.actions,
    isUntitled: true,
    cell: (module) => <ModuleActions module={module} onChange={onChange} />,
  };
}

function Name({ of: { name, version, integrity } }: { readonly of: Module }): ReactNode {
  return (
    <details>
      <summary>
        <strong>{visibleText(name)}</strong> {visibleText(version)}
      </summary>
      {integrity === "" ? (
        <span className="muted">{texts.noIntegrity}</span>
      ) : (
        <>
          {texts.integrity} <code className="modules-hash">{visibleText(integrity)}</code>
        </>
      )}
    </details>
  );
}

function State({ of: { enabled, loaded } }: { readonly of: Module }): ReactNode {
  if (!enabled) {
    return <Sign tone="warn">{texts.disabled}</Sign>;
  }
  if (loaded === undefined) {
    return <Sign tone="neutral">{texts.installed}</Sign>;
  }
  return loaded ? (
    <Sign tone="good">{texts.loaded}</Sign>
  ) : (
    <>
      <Sign tone="bad">{texts.notLoaded}</Sign> <span className="muted">{texts.notLoadedHint}</span>
    </>
  );
}

function Types({ types }: { readonly types: readonly string[] }): ReactNode {
  if (types.length === 0) {
    return <span className="muted">{texts.noTypes}</span>;
  }
  return (
    <details>
      <summary>{texts.typeCount(types.length)}</summary>
      <ul className="modules-list">
        {types.map((type) => (
          <li key={type}>
            <code>{visibleText(type)}</code>
          </li>
        ))}
      </ul>
    </details>
  );
}

function Uses({ of: { nodeCount, flows } }: { readonly of: Module }): ReactNode {
  const [isOpen, setOpen] = useState(false);
  if (nodeCount === 0) {
    return <span className="muted">{texts.notUsed}</span>;
  }
  if (flows.length === 0) {
    return texts.uses(nodeCount, 0);
  }
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{texts.uses(nodeCount, flows.length)}</summary>
      {isOpen ? <FlowLinks ids={flows} /> : null}
    </details>
  );
}

/** Reads the flows for the labels of tabs, which the list of modules does not have. */
function FlowLinks({ ids }: { readonly ids: readonly string[] }): ReactNode {
  const { can } = useSession();
  const flows = useQuery(FlowsService.method.getFlows, {}, { enabled: can("flows.read") });
  const labels = new Map(flows.data?.flows.map(({ id, label }) => [id, label]));
  return (
    <ul className="modules-list">
      {ids.map((id) => (
        <li key={id}>
          <Link href={tabPath(id)}>{visibleText(labels.get(id) || id)}</Link>
        </li>
      ))}
    </ul>
  );
}

import "./modules.css";
import { type ReactNode, useState } from "react";
import { callUnaryMethod, useQuery, useTransport } from "@connectrpc/connect-query";
import {
  type ChangeModuleResponse,
  DeploymentOutcome,
  FlowsService,
  type Module,
  ModulesService,
  RuntimeService,
} from "@flowgate/client";
import { Link } from "wouter";
import { tabPath } from "../../components/node-path.ts";
import { Page, Result } from "../../components/page.tsx";
import { OutcomeSign, Sign } from "../../components/sign.tsx";
import { type Column, Table } from "../../components/table.tsx";
import { visibleText } from "../../components/visible-text.ts";
import { useSession } from "../../session.tsx";
import { texts } from "../../texts/modules.ts";
import { type Change, Progress } from "./change-dialog.tsx";
import { InstallModule } from "./install-module.tsx";
import { ModuleActions } from "./module-actions.tsx";
import { useRefresh } from "../../api/refresh.ts";
import { useAction } from "../../components/action.ts";
import { Problem } from "../../components/notice.tsx";
import { texts as appTexts } from "../../texts/app.ts";
import { describeMissing, findNamedModules, type MissingType } from "./requirements.ts";

export function ModulesPage(): ReactNode {
  const { can } = useSession();
  const list = useQuery(ModulesService.method.listModules, {});
  const [change, setChange] = useState<Change>();
  return (
    <Page title="Modules" actions={can("modules.write") ? <InstallModule isMain onChange={setChange} /> : undefined}>
      <p className="muted">npm packages that define the node types of the flows.</p>
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
              label="Installed modules"
              columns={can("modules.write") ? [...columns, actions(setChange)] : columns}
              rows={modules}
              keyOf={({ name }) => name}
              empty="No modules are installed: the flows have the node types of Node-RED itself."
            />
          </>
        )}
      </Result>
    </Page>
  );
}

const columns: readonly Column<Module>[] = [
  { title: "Module", cell: (module) => <Name of={module} /> },
  { title: "State", cell: (module) => <State of={module} /> },
  { title: "Node types", cell: ({ types }) => <Types types={types} /> },
  { title: "Used by", cell: (module) => <Uses of={module} /> },
];

function actions(onChange: (change: Change) => void): Column<Module> {
  return {
    title: "Actions",
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
        <span className="muted">It was not installed by Flowgate.</span>
      ) : (
        <>
          Hash <code className="modules-hash">{visibleText(integrity)}</code>
        </>
      )}
    </details>
  );
}

function State({ of: { enabled, loaded } }: { readonly of: Module }): ReactNode {
  if (!enabled) {
    return <Sign tone="warn">disabled</Sign>;
  }
  if (loaded === undefined) {
    return <Sign tone="neutral">installed</Sign>;
  }
  return loaded ? (
    <Sign tone="good">loaded</Sign>
  ) : (
    <>
      <Sign tone="bad">not loaded</Sign>{" "}
      <span className="muted">Restart the flows to load it. If that does not help, the log has the reason.</span>
    </>
  );
}

function Types({ types }: { readonly types: readonly string[] }): ReactNode {
  if (types.length === 0) {
    return <span className="muted">none</span>;
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
    return <span className="muted">no nodes</span>;
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

type Restart = Pick<ChangeModuleResponse, "outcome" | "missingTypes">;

/** The result of a change: the flows already run with it, or need a restart. */
function ChangeResult({
  of: { action, response },
  onChange,
  onClose,
}: {
  readonly of: Change;
  readonly onChange: (change: Change) => void;
  readonly onClose: () => void;
}): ReactNode {
  const { can } = useSession();
  const { outcome, missingTypes } = response;
  const { name = "", version = "" } = response.module ?? {};
  const scripts = response.scriptsNotRun.filter((each) => !response.scriptsNeverRun.includes(each));
  const isDeferred = outcome === DeploymentOutcome.UNSPECIFIED;
  return (
    <section className="card" aria-label="Result">
      <output>
        {visibleText(texts.changed[action](`${name} ${version}`))}{" "}
        {isDeferred ? (
          "The running flows do not have the change yet: they have it when they are started in a new process."
        ) : (
          <>
            {response.restarted === false
              ? "The flows have it, and go on:"
              : "Result of starting the flows with the change:"}{" "}
            <OutcomeSign outcome={outcome} />{" "}
            {outcome === DeploymentOutcome.RUNNING ? null : <Link href="/">Show the reason</Link>}
          </>
        )}
      </output>
      {missingTypes.length === 0 ? null : <p>{visibleText(texts.stillMissing(missingTypes.join(", ")))}</p>}
      {scripts.length === 0 ? null : <p>{visibleText(texts.scriptsNotRun(scripts.join(", ")))}</p>}
      {response.scriptsNeverRun.length === 0 ? null : (
        <p>{visibleText(texts.scriptsNeverRun(response.scriptsNeverRun.join(", ")))}</p>
      )}
      <div className="actions">
        {isDeferred && can("runtime.write") ? (
          <RestartButton onRestart={(restart) => onChange({ action, response: { ...response, ...restart } })} />
        ) : null}
        <button type="button" onClick={onClose}>
          {appTexts.close}
        </button>
      </div>
    </section>
  );
}

function RestartButton({ onRestart }: { readonly onRestart: (restart: Restart) => void }): ReactNode {
  const transport = useTransport();
  const refresh = useRefresh(ModulesService.method.listModules);
  const { isBusy, error, run } = useAction();
  const restart = async (): Promise<void> => {
    const { outcome, missingTypes } = await callUnaryMethod(transport, RuntimeService.method.restartRuntime, {});
    onRestart({ outcome, missingTypes });
    await refresh();
  };
  return (
    <>
      {error === undefined ? null : <Problem error={error} />}
      <button type="button" className="primary" disabled={isBusy} onClick={() => void run(restart)}>
        {isBusy ? "Restarting …" : "Restart the flows"}
      </button>
    </>
  );
}

function MissingTypes({
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
      <h2 id="missing-types">Node types are missing</h2>
      <p>The flows are not started, since these types of their nodes are not installed:</p>
      <Table
        label="Missing node types"
        columns={typeColumns}
        rows={describeMissing(types, modules, nodes)}
        keyOf={({ type }) => type}
        empty={null}
      />
      {named.length === 0 ? null : (
        <>
          <p>The flows name these modules, which are not installed and could define them:</p>
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

const typeColumns: readonly Column<MissingType>[] = [
  { title: "Node type", cell: ({ type }) => <code>{visibleText(type)}</code> },
  { title: "Nodes", cell: ({ nodes }) => (nodes === 0 ? "" : nodes) },
  {
    title: "Module",
    cell: ({ disabledModule }) =>
      disabledModule === undefined ? (
        <span className="muted">not known</span>
      ) : (
        visibleText(texts.providedByDisabled(disabledModule))
      ),
  },
];

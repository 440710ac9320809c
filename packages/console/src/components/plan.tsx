import { type ReactNode, useMemo } from "react";
import {
  DeploymentOutcome,
  type DeploymentType,
  type FlowModule,
  ModuleState,
  type Node,
  NodeAction,
  type PlanFlowsResponse,
  type PlannedNode,
  type PlanWarning,
  PlanWarningKind,
  type RequiredModule,
} from "@flowgate/client";
import { texts } from "../texts/plan.ts";
import { DiffFlows } from "./flows-diff/flows-diff.tsx";
import { lossesOf } from "./losses.ts";
import { visibleText } from "./visible-text.ts";
import "./plan.css";

/** The effects of a deployment: breakage first, then stops and starts, then changes. */
export function Plan({
  plan,
  type,
  modules = [],
  nodes = [],
}: {
  readonly plan: PlanFlowsResponse;
  /** Absent: losses are shown elsewhere. */
  readonly type?: DeploymentType;
  readonly modules?: readonly FlowModule[];
  /** The deployed nodes, if known here. They provide names for unchanged nodes. */
  readonly nodes?: readonly Node[];
}): ReactNode {
  return (
    <>
      <section className="plan-effect stack" aria-label="Effect">
        <Harm plan={plan} modules={modules} />
        <Restarts nodes={plan.nodes} />
        {type === undefined ? null : (
          <Losses
            type={type}
            nodes={plan.nodes}
            modules={plan.modules.filter((each) => isInstalled(each, modules))}
            diff={plan.diff}
          />
        )}
        <Modules required={plan.modules} modules={modules} />
        <Warnings
          title="Probably not intended:"
          tone="warn"
          warnings={plan.warnings.filter((each) => !isLoss(each) && !each.existing)}
        />
        <ExistingWarnings warnings={plan.warnings.filter(({ existing }) => existing)} />
      </section>
      <section className="stack">
        <h2>Changes</h2>
        {plan.diff === undefined ? null : <DiffFlows diff={plan.diff} nodes={nodes} />}
      </section>
    </>
  );
}

export function Harm({
  plan,
  modules = [],
}: {
  readonly plan: Pick<PlanFlowsResponse, "missingTypes" | "warnings" | "activeOutcome" | "activeOutcomeMessage">;
  readonly modules?: readonly FlowModule[];
}): ReactNode {
  // Missing types may come from modules that the deployment installs.
  const missing = modules.length === 0 ? plan.missingTypes : [];
  return (
    <>
      {missing.length === 0 ? null : (
        <div className="plan-note" data-tone="bad">
          <p>{texts.missingTypes}</p>
          <ul>
            {missing.map(({ type, nodeIds }) => (
              <li key={type}>
                <code>{visibleText(type)}</code> {texts.nodes(nodeIds.length)}
              </li>
            ))}
          </ul>
        </div>
      )}
      <Warnings title="Credentials are lost:" tone="bad" warnings={plan.warnings.filter(isLoss)} />
      {plan.activeOutcome === DeploymentOutcome.FAILED ? (
        <div className="plan-note" data-tone="warn">
          <p>The active flows do not run: {visibleText(plan.activeOutcomeMessage)}</p>
        </div>
      ) : null}
    </>
  );
}

export function Losses({ type, nodes, modules, diff }: Parameters<typeof lossesOf>[0]): ReactNode {
  const { losesProcess, losesMessages, removed } = useMemo(
    () => lossesOf({ type, nodes, modules, diff }),
    [type, nodes, modules, diff],
  );
  return (
    <div className="plan-note" data-tone={losesProcess ? "warn" : "info"}>
      <p>What is lost:</p>
      <ul>
        {losesProcess ? (
          <li>
            The flows start in a new process, unless the service is configured otherwise: context in memory, and
            messages that nodes hold, are gone.
          </li>
        ) : null}
        {losesMessages ? (
          <li>
            Nodes that restart lose the messages that they hold, their timers and their connections. Context in memory
            stays.
          </li>
        ) : null}
        {removed > 0 ? <li>{texts.losses.removed(removed)}</li> : null}
        {losesProcess || losesMessages || removed > 0 ? null : <li>Nothing: no node restarts.</li>}
      </ul>
    </div>
  );
}

export function isHarmful(
  { missingTypes, warnings }: Pick<PlanFlowsResponse, "missingTypes" | "warnings">,
  modules: readonly FlowModule[] = [],
): boolean {
  return (missingTypes.length > 0 && modules.length === 0) || warnings.some(isLoss);
}

export function hasChanges(
  { diff, modules: required }: PlanFlowsResponse,
  modules: readonly FlowModule[] = [],
): boolean {
  return (diff?.containers.length ?? 0) > 0 || required.some((each) => isInstalled(each, modules));
}

function isLoss({ kind }: PlanWarning): boolean {
  return kind === PlanWarningKind.LOST_CREDENTIALS;
}

function Warnings({
  title,
  tone,
  warnings,
}: {
  readonly title: string;
  readonly tone: "bad" | "warn";
  readonly warnings: readonly PlanWarning[];
}): ReactNode {
  return warnings.length === 0 ? null : (
    <div className="plan-note" data-tone={tone}>
      <p>{title}</p>
      <WarningList warnings={warnings} />
    </div>
  );
}

function ExistingWarnings({ warnings }: { readonly warnings: readonly PlanWarning[] }): ReactNode {
  return warnings.length === 0 ? null : (
    <details>
      <summary>{texts.existingWarnings(warnings.length)}</summary>
      <WarningList warnings={warnings} />
    </details>
  );
}

function WarningList({ warnings }: { readonly warnings: readonly PlanWarning[] }): ReactNode {
  return (
    <ul>
      {warnings.map(({ kind, nodeId, message }) => (
        <li key={`${kind} ${nodeId} ${message}`}>{visibleText(message)}</li>
      ))}
    </ul>
  );
}

/** More are counted only. */
const maxNodes = 200;

const actions: Readonly<Record<number, keyof typeof texts.actions>> = {
  [NodeAction.STOP]: "stop",
  [NodeAction.START]: "start",
  [NodeAction.RESTART]: "restart",
};

function Restarts({ nodes }: { readonly nodes: readonly PlannedNode[] }): ReactNode {
  const [stop = 0, start = 0, restart = 0] = useMemo(
    () =>
      [NodeAction.STOP, NodeAction.START, NodeAction.RESTART].map(
        (action) => nodes.filter((node) => node.action === action).length,
      ),
    [nodes],
  );
  if (nodes.length === 0) {
    return <p>No node is stopped or started.</p>;
  }
  return (
    <details>
      <summary>{texts.restarts(stop, start, restart)}</summary>
      <ul className="plan-nodes" aria-label="Which nodes">
        {nodes.slice(0, maxNodes).map(({ id, type, name = "", instances, action }) => (
          <li key={[...instances, id].join("/")}>
            <span className="muted">{texts.actions[actions[action] ?? "restart"]}</span>{" "}
            <span>{visibleText(type)}</span> {name === "" ? null : <bdi>{visibleText(name)}</bdi>}{" "}
            <code>{visibleText([...instances, id].join("/"))}</code>
          </li>
        ))}
        {nodes.length > maxNodes ? <li className="muted">{texts.moreNodes(nodes.length - maxNodes)}</li> : null}
      </ul>
    </details>
  );
}

function Modules({
  required,
  modules,
}: {
  readonly required: readonly RequiredModule[];
  readonly modules: readonly FlowModule[];
}): ReactNode {
  const shown = required.filter((each) => each.state !== ModuleState.PRESENT || isInstalled(each, modules));
  return shown.length === 0 ? null : (
    <div className="plan-note" data-tone={shown.every((each) => isInstalled(each, modules)) ? "info" : "bad"}>
      <p>Modules</p>
      <ul>
        {shown.map((each) => (
          <li key={each.name}>
            <code>{visibleText(`${each.name} ${each.version ?? ""}`.trimEnd())}</code>{" "}
            {describeModule(each, isInstalled(each, modules))}
          </li>
        ))}
      </ul>
    </div>
  );
}

function isInstalled({ name, state }: RequiredModule, modules: readonly FlowModule[]): boolean {
  return state !== ModuleState.PRESENT && modules.some((each) => each.name === name);
}

function describeModule({ state, installedVersion = "" }: RequiredModule, isInstalled: boolean): string {
  const installed = visibleText(installedVersion);
  switch (state) {
    case ModuleState.MISSING:
      return isInstalled ? "is installed by this deployment" : "is not installed: no node starts";
    case ModuleState.UPGRADED:
      return isInstalled ? texts.moduleStates.replaces(installed) : texts.moduleStates.upgraded(installed);
    default:
      return "is installed";
  }
}

import { type ReactNode, useMemo } from "react";
import {
  type DeploymentType,
  type DiffRevisionResponse,
  ModuleState,
  NodeAction,
  type PlanFlowsResponse,
  type PlannedNode,
  type Revision,
} from "@flowgate/client";
import { DiffFlows } from "../../components/flows-diff/flows-diff.tsx";
import { RevisionAuthor, RevisionLink, RevisionOutcome } from "../../components/revision.tsx";
import { Time } from "../../components/time.tsx";
import { visibleText } from "../../components/visible-text.ts";
import { texts } from "../../texts/history.ts";
import { changesModules, effectsOf } from "./restoration.ts";

/** What deploying the flows of an earlier revision does: in short first, then in full. */
export function RestorePlan({
  plan: { nodes, missingTypes, warnings },
  difference: { diff, modules },
  target,
  type,
}: {
  readonly plan: PlanFlowsResponse;
  /** From the active revision. It knows the names of credentials that change, and modules that are installed. */
  readonly difference: DiffRevisionResponse;
  readonly target: Revision;
  readonly type: DeploymentType;
}): ReactNode {
  const effects = useMemo(() => effectsOf({ type, nodes, modules, diff }), [type, nodes, modules, diff]);
  const installed = modules.filter(({ state }) => state !== ModuleState.PRESENT);
  return (
    <>
      <section className="restore-part">
        <TargetLine target={target} />
        <dl className="facts">
          <dt>{texts.restarted}</dt>
          <dd>
            {changesModules(modules) ? texts.allRestart : texts.restarts(effects.stop, effects.start, effects.restart)}
            {nodes.length === 0 ? null : <PlannedNodes nodes={nodes} />}
          </dd>
          <dt>{texts.lost}</dt>
          <dd>
            {effects.losesProcess ? <p>{texts.losses.process}</p> : null}
            {effects.losesMessages ? <p>{texts.losses.nodes}</p> : null}
            {effects.removed > 0 ? <p>{texts.losses.removed(effects.removed)}</p> : null}
            {effects.losesProcess || effects.losesMessages || effects.removed > 0 ? null : texts.losses.nothing}
          </dd>
          {installed.length === 0 ? null : (
            <>
              <dt>{texts.modules}</dt>
              <dd>
                {installed.map(({ name, version = "", installedVersion, state }) => (
                  <p key={name}>
                    {visibleText(`${name} ${version}`)}{" "}
                    {state === ModuleState.UPGRADED && installedVersion !== undefined
                      ? texts.moduleReplaced(visibleText(installedVersion))
                      : texts.moduleMissing}
                  </p>
                ))}
              </dd>
            </>
          )}
        </dl>
        {missingTypes.length === 0 || installed.length > 0 ? null : (
          <p className="restore-warning" role="alert">
            {texts.missingTypes(missingTypes.map((missing) => visibleText(missing.type)).join(", "))}
          </p>
        )}
        {warnings.length === 0 ? null : (
          <details className="restore-warning">
            <summary>
              {texts.warnings} ({warnings.length})
            </summary>
            <ul>
              {warnings.slice(0, maxListed).map(({ kind, nodeId, message }) => (
                <li key={`${kind} ${nodeId} ${message}`}>{visibleText(message)}</li>
              ))}
              <More count={warnings.length - maxListed} />
            </ul>
          </details>
        )}
      </section>
      <section className="restore-part">
        <h3>{texts.changes}</h3>
        {diff === undefined || diff.containers.length === 0 ? (
          <p className="muted">{texts.nothingChanges}</p>
        ) : (
          <DiffFlows diff={diff} nodes={target.flows} />
        )}
      </section>
    </>
  );
}

function TargetLine({ target }: { readonly target: Revision }): ReactNode {
  return (
    <p>
      {texts.deploysFlowsOf} <RevisionLink rev={target.rev} />{" "}
      {target.message === "" ? null : <q>{visibleText(target.message)}</q>} (<RevisionAuthor of={target} />,{" "}
      <Time at={target.createTime} />
      ): <RevisionOutcome of={target} />
    </p>
  );
}

const maxListed = 100;

const actions: Readonly<Record<number, string>> = {
  [NodeAction.STOP]: texts.actions.stop,
  [NodeAction.START]: texts.actions.start,
  [NodeAction.RESTART]: texts.actions.restart,
};

function PlannedNodes({ nodes }: { readonly nodes: readonly PlannedNode[] }): ReactNode {
  return (
    <details>
      <summary>{texts.whichNodes}</summary>
      <ul className="planned-nodes">
        {nodes.slice(0, maxListed).map(({ id, type, name, instances, action }) => (
          <li key={[...instances, id].join(" ")}>
            {visibleText(type)} {name === undefined ? null : <bdi>{visibleText(name)}</bdi>}{" "}
            <code>{visibleText(id)}</code>: {actions[action] ?? ""}
          </li>
        ))}
        <More count={nodes.length - maxListed} />
      </ul>
    </details>
  );
}

function More({ count }: { readonly count: number }): ReactNode {
  return count > 0 ? <li className="muted">{texts.more(count)}</li> : null;
}

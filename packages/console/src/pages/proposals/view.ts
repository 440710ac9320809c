import { ContainerKind, type FlowModule, type Proposal, ProposalState } from "@flowgate/client";
import { visibleText } from "../../components/visible-text.ts";
import { texts } from "../../texts/proposals.ts";

/** The states, by their names in addresses. */
export const states = [
  { name: "open", state: ProposalState.OPEN, tone: "info" },
  { name: "approved", state: ProposalState.APPROVED, tone: "good" },
  { name: "rejected", state: ProposalState.REJECTED, tone: "bad" },
  { name: "withdrawn", state: ProposalState.WITHDRAWN, tone: "neutral" },
  { name: "stale", state: ProposalState.STALE, tone: "warn" },
  { name: "expired", state: ProposalState.EXPIRED, tone: "warn" },
] as const satisfies { name: keyof typeof texts.states; state: ProposalState; tone: string }[];

/** The state that a filter selects: open ones by default. */
export function stateOf(filter: string): ProposalState {
  if (filter === "any") {
    return ProposalState.UNSPECIFIED;
  }
  return states.find(({ name }) => name === filter)?.state ?? ProposalState.OPEN;
}

export type Decisions = {
  readonly approve: boolean;
  readonly reject: boolean;
  readonly withdraw: boolean;
  readonly hint: string;
};

/** As the service decides it, apart from permissions for single tabs. */
export function decisionsOf(
  { state, user }: Pick<Proposal, "state" | "user">,
  { username, can }: { readonly username: string; readonly can: (permission: string) => boolean },
): Decisions {
  if (state !== ProposalState.OPEN) {
    const hint =
      state === ProposalState.STALE
        ? "It can't be approved any more: another deployment has replaced the revision that it is a change of. Propose the flows again."
        : state === ProposalState.EXPIRED
          ? "It has expired without approval. Propose the flows again."
          : "";
    return { approve: false, reject: false, withdraw: false, hint };
  }
  if (user === username) {
    return {
      approve: false,
      reject: false,
      withdraw: can("flows.propose"),
      hint: "You have proposed it: someone else approves or rejects it.",
    };
  }
  const isApprover = can("flows.approve") && username !== "";
  return {
    approve: isApprover,
    reject: isApprover,
    withdraw: false,
    hint: isApprover ? "" : "Who approves or rejects it needs the permission flows.approve.",
  };
}

/** `contrib-one 1.0.0` */
export function describeModule({ name, version }: Pick<FlowModule, "name" | "version">): string {
  return visibleText(`${name} ${version}`.trimEnd());
}

const maxNamed = 5;

/** `Invoices, subflow 4f0c, nodes outside of tabs` */
export function describeChanges({ changes }: Pick<Proposal, "changes">, max: number = maxNamed): string {
  if (changes.length === 0) {
    return "modules only";
  }
  const names = changes.slice(0, max).map(({ id, label, kind }) => {
    const name = visibleText(label || id);
    return kind === ContainerKind.GLOBAL || name === ""
      ? "nodes outside of tabs"
      : kind === ContainerKind.SUBFLOW
        ? texts.subflow(name)
        : name;
  });
  return [...names, ...(changes.length > max ? [texts.more(changes.length - max)] : [])].join(", ");
}

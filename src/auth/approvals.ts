import { FlowgateError } from "@flowgate/flows/errors";
import { allows, deployUnapproved } from "./permissions.ts";
import { type Changed, describePart, listParts } from "./tab-access.ts";

/** The parts of the flows that are changed with the approval of a second person only. */
export class Approvals {
  readonly #required: "all" | ReadonlySet<string>;

  /** `required` are labels or ids of tabs. */
  constructor(required: "all" | readonly string[]) {
    this.#required = required === "all" ? required : new Set(required);
  }

  /**
   * Returns the check of a deployment without approval; undefined if no change needs one. The check throws
   * `approval_required`; or returns the parts that need approval, for callers with the permission to deploy without.
   */
  checkFor(permissions: readonly string[]): ((changed: readonly Changed[]) => string | undefined) | undefined {
    if (this.#required !== "all" && this.#required.size === 0) {
      return undefined;
    }
    return (changed) => {
      const parts = changed.filter((each) => this.#protects(each)).map(describePart);
      if (parts.length === 0) {
        return undefined;
      }
      const list = listParts(parts);
      if (!allows(permissions, deployUnapproved)) {
        throw approvalRequired(list);
      }
      return list;
    };
  }

  /** A tab is protected if it has such a label before or after the change. What tabs share is protected with each of them. */
  #protects({ id, kind, labels }: Changed): boolean {
    const required = this.#required;
    return (
      required === "all" ||
      kind !== "tab" ||
      required.has(id) ||
      labels.some((label) => label !== undefined && required.has(label))
    );
  }
}

function approvalRequired(parts: string): FlowgateError {
  return new FlowgateError(
    "approval_required",
    `The deployment would change ${parts}, which needs the approval of a second person (approvals.required): propose it, for example with flowgate propose, and have another user approve it.`,
  );
}

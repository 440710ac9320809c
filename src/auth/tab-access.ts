import { createContextKey } from "@connectrpc/connect";
import type { FlowgateError } from "@flowgate/flows/errors";
import { insufficientTabs } from "./errors.ts";
import { tabsOf } from "./permissions.ts";

export type Changed = {
  readonly id: string;
  readonly kind: "tab" | "subflow" | "global";
  /** The labels of a tab, before and after the deployment. */
  readonly labels: readonly (string | undefined)[];
};

/** The parts of the flows that a caller with permissions on some tabs only may change, propose or approve. */
export class TabAccess {
  readonly #permission: string;
  readonly #tabs: ReadonlySet<string>;
  readonly #onDenied: (detail: string) => void;

  constructor(permission: string, permissions: readonly string[], onDenied: (detail: string) => void) {
    this.#permission = permission;
    this.#tabs = tabsOf(permissions, permission);
    this.#onDenied = onDenied;
  }

  /** Throws `insufficient_scope` if the caller may not change all of these. */
  assertPermitted(changed: readonly Changed[]): void {
    const denied = changed.filter((each) => !this.#permits(each));
    if (denied.length > 0) {
      throw this.refuse(denied.map(describePart));
    }
  }

  /** The error of a change beyond the tabs, which is recorded. */
  refuse(parts: readonly string[]): FlowgateError {
    const list = listParts(parts);
    this.#onDenied(`${this.#permission} on ${list}`);
    return insufficientTabs(list, this.#permission);
  }

  /** A tab that is named by its label must have such a label before and after the change. */
  #permits({ id, kind, labels }: Changed): boolean {
    const isNamed = labels.length > 0 && labels.every((label) => label !== undefined && this.#tabs.has(label));
    return kind === "tab" && (this.#tabs.has(id) || isNamed);
  }
}

/** The list is sent in a header or trailer, which is limited to a few kilobytes. */
const maxListed = 5;

export function listParts(parts: readonly string[]): string {
  return (parts.length > maxListed ? [...parts.slice(0, maxListed), `${parts.length - maxListed} more`] : parts).join(
    ", ",
  );
}

export function describePart({ id, kind, labels }: Changed): string {
  if (kind === "global") {
    return "nodes outside of tabs";
  }
  const [label] = labels;
  return label === undefined ? `the ${kind} ${quote(id)}` : `the ${kind} ${quote(label)} (${quote(id)})`;
}

function quote(text: string): string {
  return JSON.stringify(text.length > maxQuotedChars ? `${text.slice(0, maxQuotedChars).toWellFormed()}…` : text);
}

const maxQuotedChars = 64;

/** Set by the gate if the caller has the permission of the call on some tabs only. */
export const tabAccessKey = createContextKey<TabAccess | undefined>(undefined, { description: "tab access" });

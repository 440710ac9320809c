import { isDeepStrictEqual } from "node:util";
import { tryDeploy } from "../test/e2e/deploy.ts";
import type { Node } from "../test/e2e/flow-builders.ts";
import { v2 } from "../test/e2e/rest.ts";
import type { Service } from "../test/e2e/service.ts";

/** What a client knows of a deployment after its response, or without one. */
export type Attempt = {
  readonly flows: readonly Node[];
  readonly outcome: "acknowledged" | "rejected" | "unknown";
  /** For messages. */
  readonly answer: string;
};

/** Deploys. An answer which says that the outcome is unknown, and none at all, make it unknown. */
export async function attemptDeployment(service: Pick<Service, "send">, flows: readonly Node[]): Promise<Attempt> {
  try {
    const { status, body } = await tryDeploy(service, { flows });
    const outcome = status === 200 ? "acknowledged" : /unknown/i.test(body) ? "unknown" : "rejected";
    return { flows, outcome, answer: `${status} ${body}` };
  } catch (error) {
    return { flows, outcome: "unknown", answer: String(error) };
  }
}

/** A tab with a text of this length, which is not compressible. */
export function randomFlows(random: () => number, length: number): Node[] {
  const letters = Buffer.alloc(length);
  for (let at = 0; at < length; at++) {
    // From "#" to "}" without a backslash, so that JSON has no escapes.
    const code = 0x23 + Math.floor(random() * 91);
    letters[at] = code === 0x5c ? 0x20 : code;
  }
  return [{ id: `tab ${random()}`, type: "tab", info: letters.toString("latin1") }];
}

/** Checks the active flows after an attempt on top of acknowledged flows. Returns a description of each violation. */
export function checkActive(before: readonly Node[], attempt: Attempt, active: unknown): string[] {
  const { flows, outcome, answer } = attempt;
  if (isDeepStrictEqual(active, flows)) {
    return outcome === "rejected" ? [`a deployment is active, although it was answered ${answer}`] : [];
  }
  if (isDeepStrictEqual(active, before)) {
    return outcome === "acknowledged" ? ["an acknowledged deployment is lost"] : [];
  }
  return [`the active flows were never deployed: ${JSON.stringify(active).slice(0, 200)}`];
}

export async function readActive({ send }: Pick<Service, "send">): Promise<unknown> {
  const { status, body } = await send("GET", "/flows", { headers: v2 });
  if (status !== 200) {
    throw new Error(`GET /flows was answered ${status}: ${body}`);
  }
  return (JSON.parse(body) as { flows: unknown }).flows;
}

import { readRuntime } from "../test/e2e/deploy.ts";
import { askKeeper } from "../test/e2e/keeper.ts";
import { eventually, type Service } from "../test/e2e/service.ts";

/** What is known of the token of a node: what was acknowledged last, and what was tried. */
export class Token {
  readonly id: string;
  acknowledged = 0;
  attempted = 0;

  constructor(id: string) {
    this.id = id;
  }

  /** Resolves with whether the service has acknowledged it. */
  async renew(service: Service): Promise<boolean> {
    this.attempted += 1;
    const token = this.attempted;
    try {
      const reply = await askKeeper(service, "/keeper/renew", { id: this.id, json: JSON.stringify({ token }) });
      const isStored = (reply as { stored?: boolean }).stored === true;
      this.acknowledged = isStored ? token : this.acknowledged;
      return isStored;
    } catch {
      // The service was killed.
      return false;
    }
  }

  /** Reads what flows have that were started again, and returns a description of each violation. */
  async check(service: Service, when: string): Promise<string[]> {
    const found = await readToken(service, this.id);
    const isOlder = found < this.acknowledged;
    const problem = `${when}, the token ${found} of ${this.id} is active, and ${this.acknowledged} was acknowledged`;
    this.attempted = Math.max(found, this.attempted);
    this.acknowledged = found;
    return isOlder ? [problem] : [];
  }
}

/** The flows may be starting. */
export function readToken(service: Service, id: string): Promise<number> {
  return eventually(async () => {
    const reply = (await askKeeper(service, "/keeper", { id })) as {
      starts?: number;
      stored: { token: number } | null;
    };
    if (reply.starts === undefined) {
      throw new Error(`the node ${id} does not run`);
    }
    return reply.stored?.token ?? 0;
  });
}

/** Resolves with the replica that runs the flows, and the other one. */
export function untilRunning(...replicas: readonly [Service, Service]): Promise<[Service, Service]> {
  const [one, other] = replicas;
  return eventually(async () => {
    for (const [running, waiting] of [
      [one, other],
      [other, one],
    ] as const) {
      if ((await readRuntime(running)).state === "running") {
        return [running, waiting];
      }
    }
    throw new Error("no replica runs the flows");
  });
}

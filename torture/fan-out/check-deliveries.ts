import type { Seen } from "../../test/e2e/watch-events.ts";

/** What one client has received, over all its connections, in the order of arrival. */
export type Received = {
  readonly client: string;
  readonly seen: readonly Seen[];
  readonly connections: number;
  /** Whether it stopped reading for a while. It may lack events then, but it must have been told how many. */
  readonly hasStopped: boolean;
};

/**
 * Describes each client that has not received every event about the deployments once, in order and under the same id as all others, given
 * the acknowledged revisions in their order.
 */
export function checkDeliveries(all: readonly Received[], revs: readonly string[]): string[] {
  const deployments = new Map<string, Seen>();
  const violations = all.flatMap(({ client, seen }) =>
    seen.filter(isDeployment).flatMap((each) => {
      const known = deployments.get(each.id) ?? each;
      deployments.set(each.id, known);
      const isSame = known === each || describe(known) === describe(each);
      return isSame ? [] : [`${client}: ${describe(each)} has the id of ${describe(known)}`];
    }),
  );
  // Ids of the same length sort as their positions.
  const expected = [...deployments.keys()].toSorted().map((id) => deployments.get(id) as Seen);
  const announced = expected.filter((each) => outcomeOf(each) === "pending").map(({ event }) => String(event["rev"]));
  return [
    ...violations,
    ...all.flatMap((received) => checkOne(received, expected)),
    ...(announced.join() === revs.join()
      ? []
      : [`the events are about the deployments ${announced.join(", ")} instead of ${revs.join(", ")}`]),
  ];
}

function checkOne({ client, seen, hasStopped }: Received, expected: readonly Seen[]): string[] {
  const own = seen.filter(isDeployment);
  const ids = new Set(own.map(({ id }) => id));
  const wrong = own.find(({ id }, at) => at > 0 && id <= (own[at - 1] as Seen).id);
  const missing = expected.filter(({ id }) => !ids.has(id));
  const [first] = missing;
  const told = hasStopped ? countTold(seen) : 0;
  return [
    ...(wrong === undefined ? [] : [`${client}: ${describe(wrong)} came again, or after a later one`]),
    ...(missing.length === (told ?? missing.length)
      ? []
      : [`${client}: ${missing.length} events are missing${first ? `, first ${describe(first)}` : ""}; told: ${told}`]),
  ];
}

/** Throws while the outcome of a deployment was not received. */
export function assertOutcome(seen: readonly Seen[], rev: string): void {
  if (!seen.some((each) => isDeployment(each) && each.event["rev"] === rev && outcomeOf(each) !== "pending")) {
    throw new Error(`the outcome of ${rev} was not received`);
  }
}

function isDeployment({ kind }: Seen): boolean {
  return kind === "deployment";
}

function outcomeOf({ event }: Seen): string {
  return (event["deployment"] as { readonly outcome: string }).outcome;
}

function describe(seen: Seen): string {
  return `the event ${seen.id} (${String(seen.event["rev"])} ${outcomeOf(seen)})`;
}

/** How many events about deployments a client was told to have missed; undefined if the number was not known. */
export function countTold(seen: readonly Seen[]): number | undefined {
  const dropped = seen
    .filter(({ kind }) => kind === "dropped")
    .map(
      ({ event }) => event["dropped"] as { readonly count?: number; readonly kinds?: { readonly deployment?: number } },
    );
  return dropped.some(({ count = 0 }) => count === 0)
    ? undefined
    : dropped.reduce((sum, { kinds }) => sum + (kinds?.deployment ?? 0), 0);
}

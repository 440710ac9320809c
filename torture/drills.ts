import type { Drill } from "./drill.ts";
import { linearizability } from "./drills/linearizability.ts";

export const drills: readonly Drill[] = [linearizability];

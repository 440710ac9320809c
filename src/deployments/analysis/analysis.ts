import type { Logger } from "pino";
import { programFile } from "../../base/program-file.ts";
import { type Caller, type TimeLimit, openSharedThreads } from "@flowgate/base/shared-threads";
import { FlowgateError } from "@flowgate/flows/errors";
import { type Configuration, type FlowsDocument, parseDocument } from "@flowgate/flows";
import { type ChangedContainer, type AffectedNodes } from "@flowgate/flows/compare";
import type {
  AffectedCall,
  AffectedResult,
  AnalysisCall,
  AnalysisData,
  AnalysisResult,
  ContainersCall,
  ContainersResult,
  DiffCall,
  EncodedConfiguration,
  EncodeCall,
  EncodedResponse,
  MergeCall,
  MergeReply,
  PlanCall,
  ValidateResult,
} from "./messages.ts";

/** The content of a revision, or of a deployment that is not committed. */
type Content = Omit<Configuration, "flows"> & { readonly flows: FlowsDocument };

export type Merge = MergeReply<Content>;

/**
 * Compares, merges and validates flows, and plans deployments, in threads. Calls reject with `limit_exceeded` if that takes too much
 * time, memory or output, with the reason of the caller's signal when that is aborted, and with `unavailable` if the thread exits.
 * Disposing ends them.
 */
export interface Analysis extends AsyncDisposable {
  diff(sides: Omit<DiffCall<Content>, "kind">, caller: Caller): Promise<EncodedResponse>;
  plan(call: Omit<PlanCall<Content>, "kind">, caller: Caller): Promise<EncodedResponse>;
  merge(versions: Omit<MergeCall<Content>, "kind">, caller: Caller): Promise<Merge>;
  /** Finds the nodes whose behavior the deployment of `target` can affect. */
  findAffected(sides: Omit<AffectedCall<Content>, "kind">, caller: Caller): Promise<AffectedNodes>;
  /** Finds the tabs and subflows that the deployment of `target` changes. */
  findChangedContainers(
    sides: Omit<ContainersCall<Content>, "kind">,
    caller: Caller,
  ): Promise<readonly ChangedContainer[]>;
  /** Encodes a response with flows. */
  encode(call: Omit<EncodeCall<Content>, "kind">, caller: Caller): Promise<EncodedResponse>;
  /** Validates flows as for a deployment. */
  validate(content: Content, caller: Caller): Promise<ValidateResult>;
}

export type AnalysisOptions = {
  readonly log: Logger;
  /** The heap of each thread, in MiB. */
  readonly memoryMb: number;
  /** For plans and diffs. */
  readonly readLimit: TimeLimit;
  /** For the steps of a deployment. */
  readonly deploymentLimit: TimeLimit;
};

/** With two threads, the plans and diffs of one user can't delay those of others. */
const readThreads = 2;

/**
 * Analyzes flows in threads, which get their JSON and parse it. Plans and diffs, which need only read permissions, and each step of a
 * deployment have threads of their own, so that none delays the others.
 */
export function openAnalysis({ log, memoryMb, readLimit, deploymentLimit }: AnalysisOptions): Analysis {
  const open = (name: string, work: string, count: number, limit: TimeLimit) =>
    openSharedThreads<AnalysisCall, AnalysisResult>({
      name,
      entry: programFile("deployments/analysis/thread"),
      // As much as the memory budget has for received bodies and for responses.
      data: { maxResponseBytes: (memoryMb / 4) * 1024 * 1024, maxMs: limit.maxMs } satisfies AnalysisData,
      limits: { maxOldGenerationSizeMb: memoryMb },
      count,
      work,
      limit,
      outOfMemory: () =>
        new FlowgateError(
          "limit_exceeded",
          `${work} takes more memory than limits.memoryMb allows: raise it, or make the flows smaller`,
        ),
      onUnexpectedExit: (err) => log.error({ err }, `the thread "${name}" exited`),
    });
  const reads = open("flowgate analysis", "comparing these flows", readThreads, readLimit);
  const merges = open("flowgate merges", "merging these flows", 1, deploymentLimit);
  const affected = open("flowgate affected nodes", "finding the affected nodes of these flows", 1, deploymentLimit);
  const validations = open("flowgate validation", "validating these flows", 1, deploymentLimit);

  return {
    async diff({ base, target, ...options }, caller) {
      const call = { kind: "diff", base: encode(base), target: encode(target), ...options } as const;
      return (await reads.call(call, caller)) as EncodedResponse;
    },
    async plan({ base, target, current, ...options }, caller) {
      const from = encode(base);
      const replaced = current === base ? from : encode(current);
      const call = { kind: "plan", base: from, target: encode(target), current: replaced, ...options } as const;
      return (await reads.call(call, caller)) as EncodedResponse;
    },
    async merge({ base, ours, theirs }, caller) {
      const call = { kind: "merge", base: encode(base), ours: encode(ours), theirs: encode(theirs) } as const;
      const { merged, ...result } = (await merges.call(call, caller)) as MergeReply;
      return {
        ...result,
        merged: merged && {
          flows: parseDocument(merged.json, merged.count, undefined, merged.needs),
          credentials: merged.credentials,
        },
      };
    },
    async findAffected({ base, target }, caller) {
      const call = { kind: "affected", base: encode(base), target: encode(target) } as const;
      return ((await affected.call(call, caller)) as AffectedResult).affected;
    },
    async findChangedContainers({ base, target, touched }, caller) {
      const call = { kind: "containers", base: encode(base), target: encode(target), touched } as const;
      return ((await validations.call(call, caller)) as ContainersResult).changed;
    },
    async encode({ base, ...response }, caller) {
      return (await reads.call({ kind: "encode", base: encode(base), ...response }, caller)) as EncodedResponse;
    },
    async validate(content, caller) {
      return (await validations.call({ kind: "validate", base: encode(content) }, caller)) as ValidateResult;
    },
    async [Symbol.asyncDispose]() {
      await Promise.all([reads, merges, affected, validations].map((threads) => threads[Symbol.asyncDispose]()));
    },
  };
}

function encode({ flows, credentials, kept, missing }: Content): EncodedConfiguration {
  return { json: flows.json, credentials, kept, missing };
}

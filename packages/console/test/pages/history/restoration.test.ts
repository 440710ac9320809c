import { create } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import {
  DeploymentErrorReason,
  DeploymentErrorSchema,
  DeploymentType,
  ErrorInfoSchema,
  FlowsDiffSchema,
  ModuleState,
  NodeAction,
  NodeChange,
  NodeRole,
  RevisionCause,
  RevisionSchema,
} from "@flowgate/client";
import { describe, expect, test } from "vitest";
import { lossesOf } from "../../../src/components/losses.ts";
import { canUndo, defaultType, refusalOf } from "../../../src/pages/history/restoration.ts";

describe("an undo", () => {
  test("is possible once, and not of an automatic one", () => {
    expect(canUndo({ parent: "first", cause: RevisionCause.DEPLOYMENT })).toBe(true);
    expect(canUndo({ parent: "", cause: RevisionCause.DEPLOYMENT })).toBe(false);
    expect(canUndo({ parent: "first", cause: RevisionCause.AUTOMATIC_UNDO })).toBe(false);
  });

  test("restarts by default what the deployment did, a restore everything", () => {
    const active = create(RevisionSchema, { deploymentType: DeploymentType.NODES });
    expect(defaultType("undo", active)).toBe(DeploymentType.NODES);
    expect(defaultType("restore", active)).toBe(DeploymentType.FULL);
    expect(defaultType("undo", create(RevisionSchema))).toBe(DeploymentType.FULL);
  });
});

describe("what is lost", () => {
  const nodes = [{ action: NodeAction.STOP }, { action: NodeAction.RESTART }, { action: NodeAction.RESTART }];
  const diff = create(FlowsDiffSchema, {
    containers: [
      {
        nodes: [
          { change: NodeChange.REMOVED, role: NodeRole.TAB },
          { change: NodeChange.REMOVED, role: NodeRole.NODE },
          { change: NodeChange.REMOVED, role: NodeRole.GROUP },
          { change: NodeChange.CHANGED, role: NodeRole.NODE },
        ],
      },
    ],
  });

  test("is the process, if all nodes restart", () => {
    expect(lossesOf({ type: DeploymentType.FULL, nodes, modules: [], diff })).toEqual({
      losesProcess: true,
      losesMessages: false,
      removed: 2,
    });
  });

  test("are the messages of nodes that restart, if only some do", () => {
    expect(lossesOf({ type: DeploymentType.NODES, nodes, modules: [], diff: undefined })).toEqual({
      losesProcess: false,
      losesMessages: true,
      removed: 0,
    });
  });

  test("is nothing, if nodes only start", () => {
    const losses = lossesOf({
      type: DeploymentType.FLOWS,
      nodes: [{ action: NodeAction.START }],
      modules: [{ state: ModuleState.PRESENT }],
      diff: undefined,
    });
    expect(losses).toMatchObject({ losesProcess: false, losesMessages: false });
  });

  test("is the process, if modules change", () => {
    const modules = [{ state: ModuleState.PRESENT }, { state: ModuleState.UPGRADED }];
    expect(lossesOf({ type: DeploymentType.NODES, nodes, modules, diff })).toMatchObject({ losesProcess: true });
  });
});

describe("a refused deployment", () => {
  test("is a conflict with the active revision", () => {
    const active = { rev: "other", user: "grace" };
    const error = new ConnectError("rev: …", Code.Aborted, undefined, [
      { desc: DeploymentErrorSchema, value: { code: DeploymentErrorReason.VERSION_MISMATCH, active } },
    ]);
    expect(refusalOf(error)).toMatchObject({ kind: "conflict", active });
  });

  test("needs approval", () => {
    const error = new ConnectError("…", Code.PermissionDenied, undefined, [
      { desc: ErrorInfoSchema, value: { reason: "approval_required", domain: "flowgate" } },
    ]);
    expect(refusalOf(error)).toEqual({ kind: "approval" });
  });

  test("is another error otherwise, such as a lost connection, which is aborted too", () => {
    const error = new ConnectError("connection lost", Code.Aborted);
    expect(refusalOf(error)).toEqual({ kind: "other", error });
  });
});

import { type ReactNode, useState } from "react";
import type { Revision } from "@flowgate/client";
import { useSession } from "../../session.tsx";
import { texts } from "../../texts/history.ts";
import { useRecentRevisions } from "./active-revision.ts";
import { canUndo } from "./restoration.ts";
import { RestoreDialog } from "./restore-dialog.tsx";

/** The action of the dialog. Another deployment does not change it while the dialog is open. */
type Action = { readonly kind: "undo" | "restore"; readonly target: string | undefined };

/** Makes the flows of an earlier revision active again, or undoes the active one. Not shown where this is not possible. */
export function RestoreButton({ target }: { readonly target?: Revision }): ReactNode {
  const { active } = useRecentRevisions();
  const { can, username } = useSession();
  const [opened, setOpened] = useState<Action>();
  const action: Action =
    target === undefined || target.active
      ? { kind: "undo", target: undefined }
      : { kind: "restore", target: target.rev };
  // Proposals have two people, who have names.
  const isPermitted = can("flows.write") || (can("flows.propose") && username !== "");
  if (active === undefined || !isPermitted) {
    return null;
  }
  const [label, proposal] =
    action.kind === "undo" ? [texts.undo, "Propose to undo"] : [texts.restore, "Propose to restore"];
  return (
    <>
      {action.kind === "restore" || canUndo(active) ? (
        <button type="button" onClick={() => setOpened(action)}>
          {can("flows.write") ? label : proposal}
        </button>
      ) : null}
      {opened === undefined ? null : <RestoreDialog {...opened} active={active} onClose={() => setOpened(undefined)} />}
    </>
  );
}

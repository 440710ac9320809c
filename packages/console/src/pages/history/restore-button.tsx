import { type ReactNode, useState } from "react";
import type { Revision } from "@flowgate/client";
import { useSession } from "../../session.tsx";
import { texts } from "../../texts/history.ts";
import { useRecentRevisions } from "./active-revision.ts";
import { canUndo } from "./restoration.ts";
import { RestoreDialog } from "./restore-dialog.tsx";

/** Undoes the active revision, if the user may and if there is something to undo. */
export function UndoButton(): ReactNode {
  const { active } = useRecentRevisions();
  return active !== undefined && canUndo(active) ? (
    <ActionButton kind="undo" active={active} target={undefined} label={texts.undo} proposal={texts.proposeUndo} />
  ) : null;
}

/** Makes the flows of an earlier revision active again. */
export function RestoreButton({ target }: { readonly target: Revision }): ReactNode {
  const { active } = useRecentRevisions();
  return active === undefined ? null : (
    <ActionButton
      kind="restore"
      active={active}
      target={target.rev}
      label={texts.restore}
      proposal={texts.proposeRestore}
    />
  );
}

function ActionButton({
  kind,
  active,
  target,
  label,
  proposal,
}: {
  readonly kind: "undo" | "restore";
  readonly active: Revision;
  readonly target: string | undefined;
  readonly label: string;
  readonly proposal: string;
}): ReactNode {
  const { can, username } = useSession();
  const [isOpen, setOpen] = useState(false);
  // Proposals have two people, who have names.
  if (!can("flows.write") && !(can("flows.propose") && username !== "")) {
    return null;
  }
  return (
    <>
      <button type="button" onClick={() => setOpen(true)}>
        {can("flows.write") ? label : proposal}
      </button>
      {isOpen ? <RestoreDialog kind={kind} active={active} target={target} onClose={() => setOpen(false)} /> : null}
    </>
  );
}

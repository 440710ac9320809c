import { type Revision, RevisionCause, RevisionCauseSchema } from "@flowgate/client";
import { enumWord } from "../output/enum-word.ts";

/** How a revision was made: `deployment`, `restore of 4fGx0aQz`, or `undo, back to 4fGx0aQz`. */
export function describeCause(
  { cause, restoredRev }: Revision,
  formatRev: (rev: string) => string = (rev) => rev,
): string {
  const word = enumWord(RevisionCauseSchema, cause);
  if (restoredRev === "") {
    return word;
  }
  // An undo does not name the revision that was undone, but the one whose flows are active again.
  return `${word}${cause === RevisionCause.RESTORE ? " of" : ", back to"} ${formatRev(restoredRev)}`;
}

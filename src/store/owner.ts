import { chownSync, mkdtempSync, rmdirSync, type Stats, statSync } from "node:fs";

/**
 * Returns a function that changes the owner of a file to the owner of the database, which is the user that runs the service.
 * Throws if this process can't change owners, because the service could not open such files.
 */
export function createOwnerSetter(folder: string, path: string): (file: string) => void {
  const owner = findOwner(folder, path);
  const uid = process.geteuid?.();
  if (owner === undefined || owner.uid === uid) {
    return () => {};
  }
  if (uid !== 0) {
    throw new Error(`${folder} belongs to the user ${owner.uid}: run this as that user, or as root.`);
  }
  const setOwner = (file: string): void => {
    try {
      chownSync(file, owner.uid, owner.gid);
    } catch (error) {
      // Root without the capability CAP_CHOWN, for example in a container.
      throw new Error(
        `root can't change the owner of files to the user ${owner.uid}, who owns ${folder}: run this as that user.`,
        { cause: error },
      );
    }
  };
  const probe = mkdtempSync(`${folder}/.flowgate-`);
  try {
    setOwner(probe);
  } finally {
    rmdirSync(probe);
  }
  return setOwner;
}

/** Uses the owner of the database if root owns the folder, as with volumes that only have the group of the service. */
function findOwner(folder: string, path: string): Stats | undefined {
  const directory = statSync(folder, { throwIfNoEntry: false });
  return directory?.uid === 0 ? statSync(path, { throwIfNoEntry: false }) : directory;
}

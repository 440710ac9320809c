import {
  chownSync,
  closeSync,
  existsSync,
  fsyncSync,
  linkSync,
  mkdtempSync,
  openSync,
  renameSync,
  rmdirSync,
  rmSync,
  type Stats,
  statSync,
} from "node:fs";
import { dirname } from "node:path";
import { backup, DatabaseSync } from "node:sqlite";
import { assertFlowgateDatabase, explain } from "./database.ts";
import { lockDataDir } from "../lock.ts";

/** The copy is there, and on the disk, once this resolves; else it is not. */
export async function backupStore(path: string, file: string): Promise<void> {
  assertExists(
    path,
    "name the data directory with --data-dir, FLOWGATE_DATA_DIR or dataDir, or the store with --store, FLOWGATE_STORE or store",
  );
  await copyDatabase(path, file, () => {});
}

/**
 * What was there before stays beside it. Everything belongs to the owner of the database's folder, also where
 * root runs this.
 */
export async function restoreStore(file: string, path: string): Promise<string | undefined> {
  assertExists(file, "name a file that flowgate backup has made");
  const folder = dirname(path);
  const giveAway = createGift(folder, path);
  using _lock = lockDataDir(folder, giveAway);
  const draft = `${path}.restored`;
  rmSync(draft, { force: true });
  try {
    await copyDatabase(file, draft, (db) => {
      db.exec("DELETE FROM token");
      giveAway(draft);
    });
    const replaced = existsSync(path) ? setAside(path) : undefined;
    renameSync(draft, path);
    sync(folder);
    return replaced;
  } finally {
    rmSync(draft, { force: true });
  }
}

/**
 * What gives files to whom the service runs as, where that is someone else. Throws where it couldn't: the service
 * would not be able to open them.
 */
function createGift(folder: string, path: string): (file: string) => void {
  const owner = ownerOf(folder, path);
  const me = process.geteuid?.();
  if (owner === undefined || owner.uid === me) {
    return () => {};
  }
  if (me !== 0) {
    throw new Error(`${folder} belongs to the user ${owner.uid}: run this as that user, or as root.`);
  }
  const give = (file: string): void => {
    try {
      chownSync(file, owner.uid, owner.gid);
    } catch (error) {
      // Root without the capability CAP_CHOWN, say in a container.
      throw new Error(`root may not give files to the user ${owner.uid}, who has ${folder}: run this as that user.`, {
        cause: error,
      });
    }
  };
  const probe = mkdtempSync(`${folder}/.flowgate-`);
  try {
    give(probe);
  } finally {
    rmdirSync(probe);
  }
  return give;
}

/** Volumes may belong to root, with only their group the service's: then the database tells, if there is one. */
function ownerOf(folder: string, path: string): Stats | undefined {
  const directory = statSync(folder, { throwIfNoEntry: false });
  return directory?.uid === 0 ? statSync(path, { throwIfNoEntry: false }) : directory;
}

/** Gives the database a second name, the first one that is free. */
function setAside(path: string): string {
  // Into one file, for the copy must not find the log of another database.
  settle(path);
  for (let number = 1; ; number++) {
    const replaced = `${path}.replaced-${number}`;
    if (!existsSync(replaced)) {
      linkSync(path, replaced);
      return replaced;
    }
  }
}

async function copyDatabase(from: string, to: string, change: (copy: DatabaseSync) => void): Promise<void> {
  makeName(to, () => closeSync(openSync(to, "wx", 0o600)));
  try {
    {
      using source = open(from);
      await backup(source, to);
    }
    using copy = open(to);
    // A log beside it would be a second file to keep.
    copy.exec("PRAGMA journal_mode = DELETE; PRAGMA synchronous = FULL");
    const [check] = copy.prepare("PRAGMA integrity_check").all();
    if (check?.["integrity_check"] !== "ok") {
      throw new Error(`${from} is damaged: use another backup.`);
    }
    change(copy);
  } catch (error) {
    rmSync(to, { force: true });
    throw error;
  }
  sync(to);
  sync(dirname(to));
}

function open(path: string): DatabaseSync {
  const db = new DatabaseSync(path, { timeout: 5000 });
  try {
    assertFlowgateDatabase(db, path);
    return db;
  } catch (error) {
    db.close();
    throw explain(error, path);
  }
}

function settle(path: string): void {
  using db = open(path);
  db.exec("PRAGMA journal_mode = DELETE");
}

function makeName(path: string, make: () => void): void {
  try {
    make();
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : undefined;
    if (code === "EEXIST") {
      throw new Error(`${path} exists already: move it away, or name another file.`, { cause: error });
    }
    if (code === "ENOENT") {
      throw new Error(`there is no directory ${dirname(path)}: make it, or name another file.`, { cause: error });
    }
    throw error;
  }
}

function assertExists(path: string, hint: string): void {
  if (!existsSync(path)) {
    throw new Error(`there is no ${path}: ${hint}`);
  }
}

function sync(path: string): void {
  const handle = openSync(path, "r");
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}

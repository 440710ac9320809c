// The parts of semver that this project uses. It has no type declarations.

declare module "semver" {
  const semver: {
    /** Null: it is not a version. */
    valid(version: string): string | null;
    /** Null: it is not a range. */
    validRange(range: string): string | null;
    satisfies(version: string, range: string): boolean;
    /** As `compare`, and by build metadata. */
    compareBuild(one: string, other: string): -1 | 0 | 1;
    prerelease(version: string): readonly (string | number)[] | null;
  };
  export default semver;
}

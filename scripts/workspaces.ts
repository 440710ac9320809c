/** The folders of the packages beside the service, in the order in which they are published. */
export const workspaces = ["packages/transcoding", "packages/client"];

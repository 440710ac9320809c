export const texts = {
  store: "Store",

  global: "Global",
  inStore: (store: string) => `store ${store}`,

  value: "Value",
  actions: "Actions",
  keys: (scope: string) => `Keys of ${scope}`,

  editTitle: (key: string) => `Change ${key}`,
  editHint: "The flows have the new value at once. The audit log has the key, and not the value.",
  notJson: (reason: string) => `This is not JSON: ${reason}`,
  remove: "Delete",
  removeTitle: (key: string) => `Delete ${key}?`,
  removeHint: (scope: string) => `Its value in ${scope} is lost.`,
} as const;

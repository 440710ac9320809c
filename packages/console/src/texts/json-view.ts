export const texts = {
  members: (count: number) => (count === 1 ? "1 member" : `${count} members`),
  elements: (count: number) => (count === 1 ? "1 element" : `${count} elements`),
  more: (count: number) => `Show ${count} more`,
  rest: (characters: number) => `Show ${characters} more characters`,
} as const;

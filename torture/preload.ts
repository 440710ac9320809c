/** The environment in which a service loads a file of fixtures/ first, in each of its threads: it plants a fault. */
export function preload(fixture: string): { readonly NODE_OPTIONS: string } {
  return { NODE_OPTIONS: `--import=${new URL(`fixtures/${fixture}.ts`, import.meta.url).href}` };
}

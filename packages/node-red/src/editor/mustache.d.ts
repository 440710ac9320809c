declare module "mustache" {
  const mustache: { render(template: string, values: object): string };
  export default mustache;
}

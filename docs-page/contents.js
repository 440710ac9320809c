const methods = ["get", "put", "post", "delete", "patch"];

/** Lists the operations of an OpenAPI document, a section for each tag, with links that call `show` with tag and operationId. */
export function listContents({ tags, paths }, show) {
  const operations = Object.entries(paths).flatMap(([path, item]) =>
    methods.filter((method) => method in item).map((method) => ({ path, method, ...item[method] })),
  );
  return tags.map(({ name }) =>
    create("section", {}, [
      create("h2", { textContent: name }),
      ...operations.filter(({ tags }) => tags.includes(name)).map((operation) => createLink(name, operation, show)),
    ]),
  );
}

function createLink(tag, { operationId, method, path, summary }, show) {
  const link = create("a", { href: `#/${tag}/${operationId}`, title: summary }, [
    create("b", { className: method, textContent: method }),
    create("span", { textContent: path }),
  ]);
  link.addEventListener("click", (event) => {
    event.preventDefault();
    show(tag, operationId);
  });
  return link;
}

function create(name, properties, children = []) {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children);
  return element;
}

// The pages, each a module with start(section): it is called when somebody first opens the page.
import { element } from "./explorer.mjs";
import { models, tenon } from "./session.mjs";

const PAGES = [
  { name: "run", title: "Run a model", load: () => import("./run.mjs") },
  { name: "play", title: "Playground", load: () => import("./play.mjs") },
  { name: "explore", title: "Explore", load: () => import("./explore.mjs") },
  { name: "train", title: "Train", load: () => import("./train.mjs") },
];

const content = document.getElementById("content");
const sections = new Map();

function start(page) {
  const section = element("section", { id: `page-${page.name}`, "aria-label": page.title });
  sections.set(page.name, section);
  content.append(section);
  page
    .load()
    .then((module) => module.start(section))
    .catch((error) => section.replaceChildren(element("p", { class: "error", role: "alert" }, error.message)));
}

function show() {
  const [name] = location.hash.slice(1).split("?");
  if (name === "content") return; // the link that skips the navigation
  const page = PAGES.find((each) => each.name === name) ?? PAGES[0];
  if (!sections.has(page.name)) start(page);
  for (const [each, section] of sections) section.hidden = each !== page.name;
  for (const link of document.querySelectorAll("#pages a")) {
    if (link.hash === `#${page.name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${page.title} · Tenon`;
}

const link = ({ name, title }) => element("li", {}, element("a", { href: `#${name}` }, title));
document.getElementById("pages").append(...PAGES.map(link));
addEventListener("hashchange", show);
// They load together with the first page, which hears of their failure.
for (const load of [tenon, models]) load().catch(() => {});
show();

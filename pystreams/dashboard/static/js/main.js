// The page: login, navigation, choice of the screen, and news of the server.

import { Failure, get, LiveSamples, onLoggedOut, post, remember, state } from "./api.js";
import { audit } from "./changes.js";
import { duration, field, h, icon, panel, replace, text, toast } from "./dom.js";
import { letters, pending } from "./pending.js";
import { overview, queries } from "./overview.js";
import { group, groups, stream } from "./streams.js";

function login(failed, entered) {
  const user = h("input", { name: "user", autocomplete: "username", spellcheck: "false", autocapitalize: "none" });
  const password = h("input", { name: "password", type: "password", autocomplete: "current-password" });
  const token = h("input", { name: "token", type: "password", autocomplete: "off" });
  const problem = h("p", { class: "error", role: "alert" }, failed);
  const go = h("button", { type: "submit", class: "button primary" }, "Log in");
  const form = h("form", { onsubmit: async (event) => {
    event.preventDefault();
    go.disabled = true;
    problem.replaceChildren();
    try {
      remember(await post("login", token.value ? { token: token.value } : { user: user.value, password: password.value }));
      entered();
    } catch (failure) {
      replace(problem, failure.message);
      go.disabled = false;
    }
  } },
  h("div", { class: "brand" }, h("img", { src: "/static/icon.svg", alt: "" }), "pystreams"),
  h("div", {}, h("h1", {}, "Log in"), h("p", { class: "muted mono" }, state.server)),
  state.oidc ? h("a", { class: "button primary", href: "/oidc/login" }, "Log in with single sign-on") : null,
  field("User", user), field("Password", password),
  h("p", { class: "hint" }, "A user of the server's ACL. If the server has no password, leave both empty."),
  h("details", {}, h("summary", {}, "Log in with a token"), field("Token", token),
    h("p", { class: "hint" }, "'pystreams ui' prints the token at the end of the URL when it starts.")),
  problem, go);
  return h("main", { id: "main", class: "login" }, h("div", { class: "panel card" }, form));
}

const SCREENS = { audit, "": overview, groups, group, stream, pending, letters, queries };
const MENU = [["", "Overview", "overview"], ["groups", "Groups", "groups"], ["letters", "Dead letters", "letters"],
  ["queries", "Spark queries", "queries"], ["audit", "Changes", "audit"]];
const BELONGS = { stream: "", group: "groups", pending: "groups" };

const GONE = [403, 404, 409]; // of a request about a stream or a group that was removed, replaced or forbidden
const app = document.getElementById("app");
let frame = null;

// A page with a session. A screen is {element, refresh(sample), leave()}; `refresh` is called after every sample.
class Frame {
  constructor() {
    this.links = new Map(MENU.map(([path, title, picture]) => [path, h("a", { href: `#/${path}` }, icon(picture), title)]));
    this.badge = h("span", { class: "badge bad", hidden: true });
    this.links.get("groups").append(this.badge);
    this.product = h("span", { class: "muted" });
    this.banner = h("div", { class: "banner", role: "alert", hidden: true });
    this.main = h("main", { id: "main", class: "main", tabindex: "-1" });
    const role = state.operator ? "Changes are off: the dashboard lacks --allow-changes." : "Your role is viewer, which may not make changes.";
    const badge = state.changes ? h("span", { class: "badge warning", title: "This dashboard may change streams and groups." }, "changes allowed")
      : h("span", { class: "badge", title: role }, "read-only");
    this.element = h("div", { class: "frame" },
      h("header", { class: "side" },
        h("a", { class: "brand", href: "#/" }, h("img", { src: "/static/icon.svg", alt: "" }), "pystreams"),
        h("nav", { "aria-label": "Screens" }, [...this.links.values()]),
        h("div", { class: "foot" },
          h("div", { class: "server" }, this.product, h("div", { class: "mono" }, state.server)),
          h("div", { class: "row" }, badge),
          h("div", { class: "row" }, h("span", { class: "muted user", title: "Who is logged in" }, state.session.user),
            h("button", { type: "button", class: "button quiet", onclick: logOut }, "Log out")))),
      this.main);
    this.screen = null;
    this.sample = null;
    this.lost = 0;
    this.busy = false;
    this.missed = false; // whether a sample arrived while the screen was loading; the next sample may arrive a minute later
    this.route = () => {
      for (const open of document.querySelectorAll("dialog[open]")) open.close();
      this.show();
    };
    window.addEventListener("hashchange", this.route);
    this.samples = new LiveSamples((sample) => this.handle(sample));
    this.show();
  }

  leave() {
    this.samples.end();
    this.screen?.leave?.();
    window.removeEventListener("hashchange", this.route);
    clearInterval(this.clock);
  }

  // Handles a sample; null if the dashboard is unreachable.
  handle(sample) {
    if (sample === null) {
      this.lost += 1;
      if (this.lost > 1) this.warn("No answer", "The dashboard does not answer. It was stopped, or cannot be reached. This page continues when it is back.");
      return;
    }
    const wasWell = this.sample?.problem === null;
    this.lost = 0;
    this.sample = sample;
    if (sample.problem !== null && sample.number > 0) {
      this.warn(sample.at ? "Server unreachable" : "No connection", `${sample.problem} ${sample.at ? `The data shown is ${duration(sample.age_ms)} old. ` : ""}This page continues when the server is back.`);
    } else this.warn(null);
    text(this.product, sample.server.product);
    const bad = sample.totals?.statuses ? (sample.totals.statuses.stop ?? 0) + (sample.totals.statuses.stall ?? 0) : 0;
    text(this.badge, String(bad));
    this.badge.hidden = bad === 0;
    this.badge.title = `Groups that are stopped or stalled: ${bad}`;
    if (sample.problem === null || wasWell) this.refresh();
  }

  warn(title, message = "") {
    this.element.classList.toggle("stale", title !== null);
    this.banner.hidden = title === null;
    if (title !== null && this.banner.textContent !== `${title}${message}`) replace(this.banner, h("strong", {}, title), h("span", {}, message));
  }

  async refresh() {
    this.missed = true;
    if (this.busy) return;
    this.busy = true;
    const { showing } = this;
    try {
      while (this.missed && this.screen?.refresh) {
        this.missed = false;
        await this.screen.refresh(this.sample);
      }
    } catch (failure) {
      if (!(failure instanceof Failure)) throw failure;
      if (GONE.includes(failure.status) && this.showing === showing) this.show();
    } finally { this.busy = false; }
  }

  async show() {
    const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
    const [kind, ...keys] = path.split("/");
    const make = SCREENS[kind] ?? null;
    const token = this.showing = {};
    this.screen?.leave?.();
    this.screen = null;
    this.missed = false;
    for (const [target, link] of this.links) {
      if (target === (BELONGS[kind] ?? kind)) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
    }
    if (!make) { this.failed("There is no such page.", "This dashboard has no page at this address."); return; }
    try {
      const screen = await make({ keys, query: new URLSearchParams(query), again: () => this.refresh() });
      if (this.showing !== token) { screen.leave?.(); return; }
      this.screen = screen;
      const same = this.main.dataset.path === path;
      this.main.dataset.path = path;
      screen.element.classList.add("screen");
      replace(this.main, this.banner, screen.element);
      document.title = `${screen.title} · pystreams`;
      if (!same) { window.scrollTo(0, 0); this.main.focus({ preventScroll: true }); }
      if (this.missed) this.refresh();
    } catch (failure) {
      if (!(failure instanceof Failure)) throw failure;
      if (this.showing !== token || failure.status === 401) return;
      this.failed(failure.status === 404 ? "Not found." : "This page cannot be shown.", failure.message);
      this.screen = { refresh: () => this.show() };
    }
  }

  failed(title, message) {
    replace(this.main, this.banner, panel(h("h1", {}, title), h("div", { class: "empty", role: "alert" }, h("p", {}, message),
      h("p", {}, h("a", { href: "#/" }, "Go to the overview")))));
    document.title = "pystreams";
  }
}

async function logOut() {
  try { await post("logout", {}); } finally { state.session = null; enter(); }
}

// Shows the failure of a click as a toast. A screen that cannot be shown has its own message.
window.addEventListener("unhandledrejection", (event) => {
  if (!(event.reason instanceof Failure)) return;
  event.preventDefault();
  if (event.reason.status !== 401) toast(event.reason.message);
});

// Messages for a failed login with OpenID Connect.
const REFUSALS = {
  provider: "The login provider does not reply. The log of the dashboard has the reason.",
  refused: "The login provider's answer was refused. The log of the dashboard has the reason.",
  role: "You are logged in at the login provider, but have no role in this dashboard.",
};

async function enter() {
  frame?.leave();
  frame = null;
  let failed = "";
  const given = location.hash.match(/^#token=(.+)$/);
  const refused = location.hash.match(/^#login=(\w+)$/);
  if (refused) failed = REFUSALS[refused[1]] ?? "";
  const stray = location.hash.length > 1 && !/^#(\/|main$)/.test(location.hash) && !given && !refused; // also a token without `#token=`
  if (given || refused || stray) history.replaceState(null, "", location.pathname); // keeps the token out of the browser's history
  try {
    if (given) remember(await post("login", { token: decodeURIComponent(given[1]) }));
    else remember(await get("session"));
  } catch (failure) {
    failed = failure.message;
    try { remember(await get("session")); } catch { /* the login page shows what failed */ }
  }
  if (!state.session) {
    if (stray) failed = "The address has no token. It must end with #token= and the token.";
    document.title = "Log in · pystreams";
    replace(app, login(failed, enter));
    app.querySelector("input")?.focus();
    return;
  }
  frame = new Frame();
  replace(app, frame.element);
}

onLoggedOut(() => { if (frame) { state.session = null; enter(); } });
enter();

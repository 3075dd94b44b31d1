import { h } from "../dom.js";
export async function server() { return { title: "server", element: h("div", {}, "server") }; }

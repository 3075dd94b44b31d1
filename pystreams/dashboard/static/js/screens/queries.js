import { h } from "../dom.js";
export async function queries() { return { title: "queries", element: h("div", {}, "queries") }; }

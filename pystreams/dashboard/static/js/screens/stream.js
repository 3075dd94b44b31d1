import { h } from "../dom.js";
export async function stream() { return { title: "stream", element: h("div", {}, "stream") }; }

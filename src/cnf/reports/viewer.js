"use strict";
// The viewer: arrays of the page go to WebGL as they are; pointers, wheel and keys move a camera around the shape.
// Coordinates: `standing` turns the file's axes so that y is up; the shape then lies in [-1, 1] along its longest side.
(() => {
const scene = JSON.parse(document.getElementById("scene").textContent);
const canvas = document.querySelector("canvas");
const gl = canvas.getContext("webgl2", { antialias: true, alpha: true, premultipliedAlpha: true });
if (!gl) return;
const find = (id) => document.getElementById(id);

function decode(name, Kind) {
  const text = atob(find("data-" + name).textContent.trim());
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return new Kind(bytes.buffer);
}

const HEAD = `#version 300 es
precision highp float;
uniform mat4 view, projection; uniform mat3 standing; uniform vec3 extent;
vec3 unfold(vec2 e) {
  vec3 n = vec3(e, 1.0 - abs(e.x) - abs(e.y));
  if (n.z < 0.0) n.xy = (1.0 - abs(n.yx)) * vec2(n.x >= 0.0 ? 1.0 : -1.0, n.y >= 0.0 ? 1.0 : -1.0);
  return normalize(n);
}
vec3 place(vec3 q) { return standing * (2.0 * q - extent); }
`;
const VERTEX = HEAD + `
in vec3 position; in vec2 normal; in vec3 colour; in float value;
uniform float size, pull;
out vec3 seen, side, tint; out float apart;
void main() {
  vec4 local = view * vec4(place(position), 1.0);
  seen = local.xyz; side = mat3(view) * (standing * unfold(normal)); tint = colour; apart = value;
  gl_Position = projection * vec4(local.xyz * pull, 1.0);
  gl_PointSize = clamp(size / -local.z, 2.0, 28.0);
}`;
const LIGHT = `#version 300 es
precision highp float;
in vec3 seen, side, tint; in float apart;
uniform vec3 clay; uniform float top, limit, near, fade; uniform int paint, kind;
out vec4 picture;
vec3 linear(vec3 c) { return pow(c, vec3(2.2)); }
vec3 ramp(float t) {
  vec3 a = vec3(0.173, 0.482, 0.714), b = vec3(0.525, 0.737, 0.863), c = vec3(0.957, 0.941, 0.769), d = vec3(0.949, 0.651, 0.333);
  return t < 0.333 ? mix(a, b, t * 3.0) : t < 0.666 ? mix(b, c, t * 3.0 - 1.0) : mix(c, d, min(t * 3.0 - 2.0, 1.0));
}
void main() {
  if (-seen.z < near) discard;
  if (kind == 2) { picture = vec4(clay, 1.0) * fade; return; }
  vec3 eye = normalize(-seen), n = normalize(side);
  bool round = kind == 1, inner = false;
  if (round) {
    vec2 spot = gl_PointCoord - 0.5;
    if (dot(spot, spot) > 0.25) discard;
    if (dot(n, eye) < 0.0) n = -n;
  } else {
    inner = !gl_FrontFacing;
    if (inner) n = -n;
  }
  vec3 base = linear(clay);
  if (paint == 1) base = linear(tint);
  if (paint == 2 && !round) {
    float d = apart * top;
    base = linear(d > limit ? vec3(0.843, 0.098, 0.110) : ramp(d / limit));
  }
  if (inner) base = mix(base * 0.55, vec3(0.10, 0.13, 0.20), 0.45);
  vec3 key = normalize(vec3(-0.45, 0.65, 0.75)), fill = normalize(vec3(0.8, 0.1, 0.45));
  float sky = 0.5 + 0.5 * n.y;
  vec3 light = vec3(0.82, 0.80, 0.77) * max(dot(n, key), 0.0) + vec3(0.20, 0.23, 0.27) * max(dot(n, fill), 0.0)
    + mix(vec3(0.15, 0.13, 0.12), vec3(0.30, 0.33, 0.37), sky);
  float shine = pow(max(dot(n, normalize(key + eye)), 0.0), 48.0) * 0.10;
  float rim = pow(1.0 - max(dot(n, eye), 0.0), 4.0) * 0.10;
  picture = vec4(pow(clamp(base * light + shine + rim, 0.0, 1.0), vec3(1.0 / 2.2)), 1.0);
}`;

let program, places, buffers;
function compile(kind, text) {
  const shader = gl.createShader(kind);
  gl.shaderSource(shader, text); gl.compileShader(shader);
  if (!gl.getShaderParameter(shader, gl.COMPILE_STATUS)) throw new Error(gl.getShaderInfoLog(shader));
  return shader;
}
function upload(target, data) {
  const buffer = gl.createBuffer();
  gl.bindBuffer(target, buffer); gl.bufferData(target, data, gl.STATIC_DRAW);
  return buffer;
}
const faces = decode("faces", scene.wide ? Uint32Array : Uint16Array);
const arrays = { mesh: {}, points: {} };
for (const part of ["mesh", "points"]) for (const name of scene[part]) {
  const kind = { position: Uint16Array, normal: Int16Array, colour: Uint8Array, value: Uint16Array }[name];
  arrays[part][name] = decode(part + "-" + name, kind);
}

function prepare() {
  program = gl.createProgram();
  gl.attachShader(program, compile(gl.VERTEX_SHADER, VERTEX));
  gl.attachShader(program, compile(gl.FRAGMENT_SHADER, LIGHT));
  gl.linkProgram(program);
  if (!gl.getProgramParameter(program, gl.LINK_STATUS)) throw new Error(gl.getProgramInfoLog(program));
  gl.useProgram(program);
  places = new Proxy({}, { get: (kept, name) => kept[name] ??= gl.getUniformLocation(program, name) });
  buffers = { faces: upload(gl.ELEMENT_ARRAY_BUFFER, faces), edges: null };
  for (const part of ["mesh", "points"]) {
    buffers[part] = {};
    for (const [name, data] of Object.entries(arrays[part])) buffers[part][name] = upload(gl.ARRAY_BUFFER, data);
  }
  gl.enable(gl.DEPTH_TEST);
}

function bind(part) {
  const kinds = { position: [3, gl.UNSIGNED_SHORT], normal: [2, gl.SHORT], colour: [3, gl.UNSIGNED_BYTE], value: [1, gl.UNSIGNED_SHORT] };
  for (const [name, [width, kind]] of Object.entries(kinds)) {
    const at = gl.getAttribLocation(program, name);
    if (at < 0) continue;
    if (buffers[part][name]) {
      gl.bindBuffer(gl.ARRAY_BUFFER, buffers[part][name]);
      gl.enableVertexAttribArray(at); gl.vertexAttribPointer(at, width, kind, true, 0, 0);
    } else { gl.disableVertexAttribArray(at); gl.vertexAttrib4f(at, 0.5, 0.5, 0.5, 1); }
  }
}

// Every side of a face once, made when somebody first asks for it.
function listEdges() {
  if (!buffers.edges) {
    const count = arrays.mesh.position.length / 3, seen = new Set(), ends = [];
    for (let i = 0; i < faces.length; i++) {
      const a = faces[i], b = faces[i % 3 === 2 ? i - 2 : i + 1], key = a < b ? a * count + b : b * count + a;
      if (!seen.has(key)) { seen.add(key); ends.push(a, b); }
    }
    buffers.edges = upload(gl.ELEMENT_ARRAY_BUFFER, new Uint32Array(ends));
    buffers.ends = ends.length;
    const q = arrays.mesh.position, every = 2 * Math.max(1, Math.floor(ends.length / 8000));
    let sum = 0, summed = 0;
    for (let i = 0; i + 1 < ends.length; i += every, summed++)
      sum += Math.hypot(...[0, 1, 2].map((k) => q[3 * ends[i] + k] - q[3 * ends[i + 1] + k])) * 2 / 65535;
    buffers.side = sum / Math.max(summed, 1); // mean length
  }
  return buffers.ends;
}

// ---- the camera: an eye that looks at `target` from a direction, y up
const OPENING = 24 * Math.PI / 180;
const SPARE = 40; // pixels for the tools, above and below
let camera, moved = false; // until somebody moves it, the camera fits the window
function begin() { // as near as all of the shape is seen above the tools
  camera = { yaw: scene.turn * Math.PI / 180 + 0.66, pitch: 0.28, target: [0, 0, 0], away: 1 };
  const { right, up, back } = axes(), t = scene.standing, q = arrays.mesh.position, count = q.length / 3;
  const every = Math.max(1, Math.floor(count / 5000)), spots = [];
  for (let v = 0; v < count; v += every) {
    const p = [0, 1, 2].map((k) => 2 * q[3 * v + k] / 65535 - scene.extent[k]);
    const x = [0, 1, 2].map((k) => t[3 * k] * p[0] + t[3 * k + 1] * p[1] + t[3 * k + 2] * p[2]);
    spots.push([dot(right, x), dot(up, x), dot(back, x)]);
  }
  const middle = [0, 1].map((k) => { const all = spots.map((s) => s[k]); return (Math.max(...all) + Math.min(...all)) / 2; });
  const wide = canvas.clientWidth / Math.max(canvas.clientHeight, 1), tall = 0.9 - 2 * SPARE / Math.max(canvas.clientHeight, 2 * SPARE);
  const slope = Math.tan(OPENING / 2), limits = [0.92 * slope * wide, Math.max(tall, 0.3) * slope];
  camera.away = Math.max(...spots.map((s) => s[2] + Math.max(...[0, 1].map((k) => Math.abs(s[k] - middle[k]) / limits[k]))));
  const lowered = middle[1] - (find("tools").offsetHeight - 16) / Math.max(canvas.clientHeight, 1) * slope * camera.away;
  camera.target = right.map((r, k) => r * middle[0] + up[k] * lowered);
}
function axes() {
  const [cy, sy, cp, sp] = [Math.cos(camera.yaw), Math.sin(camera.yaw), Math.cos(camera.pitch), Math.sin(camera.pitch)];
  return { right: [cy, 0, -sy], up: [-sy * sp, cp, -cy * sp], back: [sy * cp, sp, cy * cp] };
}
const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];

function draw() {
  const ratio = Math.min(window.devicePixelRatio || 1, 2);
  const width = Math.max(1, Math.round(canvas.clientWidth * ratio)), height = Math.max(1, Math.round(canvas.clientHeight * ratio));
  if (canvas.width !== width || canvas.height !== height) { canvas.width = width; canvas.height = height; }
  const { right, up, back } = axes();
  const eye = back.map((b, k) => camera.target[k] + b * camera.away);
  const view = [right[0], up[0], back[0], 0, right[1], up[1], back[1], 0, right[2], up[2], back[2], 0,
    -dot(right, eye), -dot(up, eye), -dot(back, eye), 1];
  const centre = Math.hypot(...eye), close = Math.max(centre - 1.1 * scene.radius, 0.004 * scene.radius), far = centre + 1.1 * scene.radius;
  const slope = 1 / Math.tan(OPENING / 2);
  const projection = [slope * height / width, 0, 0, 0, 0, slope, 0, 0, 0, 0, (far + close) / (close - far), -1, 0, 0, 2 * far * close / (close - far), 0];
  gl.viewport(0, 0, width, height);
  gl.clearColor(0, 0, 0, 0); gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
  gl.useProgram(program);
  gl.uniformMatrix4fv(places.view, false, view); gl.uniformMatrix4fv(places.projection, false, projection);
  gl.uniformMatrix3fv(places.standing, true, scene.standing); gl.uniform3fv(places.extent, scene.extent);
  gl.uniform1f(places.top, scene.top); gl.uniform1f(places.limit, scene.limit);
  const cut = Number(find("cut").value) / 100;
  gl.uniform1f(places.near, cut ? centre - scene.radius + 2 * scene.radius * cut : 0);
  const paint = Number(document.querySelector("input[name=paint]:checked").value);
  const meshed = find("mesh").checked;
  gl.uniform1f(places.size, scene.dot * slope * height);
  if (meshed) {
    bind("mesh");
    gl.uniform1i(places.kind, 0); gl.uniform1i(places.paint, paint); gl.uniform1f(places.pull, 1);
    gl.uniform3fv(places.clay, [0.80, 0.70, 0.58]);
    gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, buffers.faces);
    gl.drawElements(gl.TRIANGLES, faces.length, scene.wide ? gl.UNSIGNED_INT : gl.UNSIGNED_SHORT, 0);
  }
  if (find("edges").checked && faces.length) {
    const ends = listEdges();
    bind("mesh");
    gl.uniform1i(places.kind, 2); gl.uniform1f(places.pull, 0.9992);
    const pixels = buffers.side * slope * height / 2 / camera.away; // of a side: where they are many, each is faint
    gl.uniform1f(places.fade, Math.max(0.1, Math.min(0.55, pixels / 24)));
    const dark = matchMedia("(prefers-color-scheme: dark)").matches && !meshed;
    gl.uniform3fv(places.clay, dark ? [0.85, 0.89, 0.93] : [0.09, 0.11, 0.14]);
    gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, buffers.edges);
    gl.enable(gl.BLEND); gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    gl.drawElements(gl.LINES, ends, gl.UNSIGNED_INT, 0);
    gl.disable(gl.BLEND);
  }
  if (find("points").checked && scene.points.length) {
    bind("points");
    // Drawn a little nearer than they are, so that those on the surface are not half inside it.
    gl.uniform1i(places.kind, 1); gl.uniform1f(places.pull, meshed ? 0.998 : 1);
    gl.uniform1i(places.paint, paint === 1 && buffers.points.colour ? 1 : 0);
    gl.uniform3fv(places.clay, !meshed ? [0.34, 0.56, 0.80] : paint === 2 ? [0.10, 0.12, 0.15] : [0.75, 0.18, 0.10]);
    gl.drawArrays(gl.POINTS, 0, arrays.points.position.length / 3);
  }
  find("legend").hidden = !(paint === 2 && meshed);
}
let asked = false;
function show() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => { asked = false; if (!gl.isContextLost()) draw(); });
}

// ---- moving
function turn(x, y) {
  camera.yaw -= x; camera.pitch = Math.max(-1.55, Math.min(1.55, camera.pitch + y)); moved = true; show();
}
function move(x, y) { // in pixels
  const { right, up } = axes(), step = 2 * camera.away * Math.tan(OPENING / 2) / Math.max(canvas.clientHeight, 1);
  camera.target = camera.target.map((t, k) => Math.max(-3, Math.min(3, t - step * (right[k] * x - up[k] * y)))); moved = true; show();
}
function zoom(factor) { camera.away = Math.max(0.05 * scene.radius, Math.min(60, camera.away * factor)); moved = true; show(); }
function reset() { moved = false; begin(); find("cut").value = 0; show(); }

const held = new Map();
canvas.addEventListener("pointerdown", (event) => {
  canvas.setPointerCapture(event.pointerId);
  held.set(event.pointerId, { x: event.clientX, y: event.clientY, moves: event.button === 2 || event.shiftKey });
});
canvas.addEventListener("pointermove", (event) => {
  const last = held.get(event.pointerId);
  if (!last) return;
  const x = event.clientX - last.x, y = event.clientY - last.y;
  if (held.size === 1) { if (last.moves) move(x, y); else turn(x * 0.0075, y * 0.0075); }
  else if (held.size === 2) {
    const other = [...held].find(([id]) => id !== event.pointerId)[1];
    const before = Math.hypot(last.x - other.x, last.y - other.y), after = Math.hypot(event.clientX - other.x, event.clientY - other.y);
    if (before > 8 && after > 8) zoom(before / after);
    move(x / 2, y / 2);
  }
  last.x = event.clientX; last.y = event.clientY;
});
for (const kind of ["pointerup", "pointercancel"]) canvas.addEventListener(kind, (event) => held.delete(event.pointerId));
canvas.addEventListener("contextmenu", (event) => event.preventDefault());
canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  const lines = event.deltaMode === 1 ? 24 : event.deltaMode === 2 ? 400 : 1;
  zoom(Math.exp(Math.max(-200, Math.min(200, event.deltaY * lines)) * 0.0016));
}, { passive: false });
canvas.addEventListener("dblclick", reset);

function press(id) { const box = find(id); if (!box.closest("[hidden]")) { box.checked = !box.checked; show(); } }
function choose(value) {
  const found = document.querySelector(`input[name=paint][value="${value}"]`);
  if (!found.closest("[hidden]")) { found.checked = true; show(); }
}
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || (event.target.tagName === "INPUT" && event.key.startsWith("Arrow"))) return;
  const inside = event.target === canvas || event.target === document.body;
  const go = (x, y) => () => { if (event.shiftKey) move(-240 * x, -240 * y); else turn(x, y); };
  const arrows = { ArrowLeft: go(-0.1, 0), ArrowRight: go(0.1, 0), ArrowUp: go(0, -0.1), ArrowDown: go(0, 0.1) };
  const keys = { "+": () => zoom(0.88), "=": () => zoom(0.88), "-": () => zoom(1.136), "_": () => zoom(1.136), "0": reset, r: reset,
    m: () => press("mesh"), p: () => press("points"), e: () => press("edges"), 1: () => choose(0), 2: () => choose(1), 3: () => choose(2) };
  const act = inside && arrows[event.key] || keys[event.key.toLowerCase()];
  if (act) { event.preventDefault(); act(); }
});

// ---- the page
const has = { colours: scene.mesh.includes("colour"), values: scene.mesh.includes("value"), points: scene.points.length > 0 };
for (const part of document.querySelectorAll("[data-needs]")) part.hidden = !has[part.dataset.needs];
find("limit").textContent = scene.limit.toFixed(1);
find("missing").hidden = true;
find("tools").hidden = false;
find("reset").addEventListener("click", reset);
find("tools").addEventListener("input", show);
canvas.addEventListener("webglcontextlost", (event) => event.preventDefault());
canvas.addEventListener("webglcontextrestored", () => { prepare(); show(); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
prepare();
begin();
if (has.colours) choose(1);
new ResizeObserver(() => { if (!moved) begin(); show(); }).observe(canvas);
// What is wanted can be said behind the name of the page: #distance,points,edges,nomesh
for (const word of location.hash.slice(1).split(",")) {
  if (word === "distance") choose(2); else if (word === "colours") choose(1); else if (word === "surface") choose(0);
  else if (word === "points" || word === "edges") find(word).checked = true; else if (word === "nomesh") find("mesh").checked = false;
}
show();
})();

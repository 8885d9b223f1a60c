/* The files that a person drops or chooses, as the folder of a result. */

const MOST_PATHS = 5000; // somebody may choose a whole disk

/* Of one dropped or chosen folder, without its own name. */
function folderOf(paths) {
  const files = new Map(paths);
  return {
    names: [...files.keys()],
    read: (path) => {
      const file = files.get(path);
      return file ? { size: file.size, bytes: () => file.arrayBuffer() } : null;
    },
  };
}

const INSIDE = [[".statement", "statements/"], [".evidence", "evidence/"]];

/* Files that were chosen one by one have lost their folders: their endings say which. */
function placeOf(file) {
  const inside = INSIDE.find(([ending]) => file.name.endsWith(ending));
  return [(inside?.[1] ?? "") + file.name, file];
}

function pathsOfInput(files) {
  return withFolders(
    [...files].slice(0, MOST_PATHS).map((file) => {
      const path = file.webkitRelativePath;
      return path ? [path.split("/").slice(1, 3).join("/"), path.split("/").length > 3 ? null : file] : placeOf(file);
    }),
  );
}

/* Folders are part of the listing. */
function withFolders(paths) {
  const folders = paths.map(([path]) => path.split("/")).filter((parts) => parts.length > 1);
  return [...new Map([...folders.map(([name]) => [name, null]), ...paths])];
}

/* Chromium reads entries only on pages that came from a server, and handles on every page; Firefox
   knows entries alone. Both are asked at once: after a drop, items are soon gone. */
async function pathsOfDrop(items) {
  const dropped = [...items].filter(({ kind }) => kind === "file").map((item) =>
    item.getAsFileSystemHandle
      ? item.getAsFileSystemHandle().then(ofHandle)
      : Promise.resolve(ofEntry(item.webkitGetAsEntry())),
  );
  const found = await Promise.all(dropped);
  if (found.length === 1 && found[0].children) return walk(found[0], "", 2);
  const each = found.map(async (one) => {
    if (!one.children) return [placeOf(await one.file())];
    return [[one.name, null], ...(await walk(one, `${one.name}/`, 1))];
  });
  return withFolders((await Promise.all(each)).flat());
}

function ofHandle(handle) {
  if (handle.kind === "file") return { name: handle.name, file: () => handle.getFile() };
  const children = async () => {
    const found = [];
    for await (const inner of handle.values()) {
      found.push(ofHandle(inner));
      if (found.length > MOST_PATHS) break;
    }
    return found;
  };
  return { name: handle.name, children };
}

function ofEntry(entry) {
  const asked = (ask) => new Promise((resolve, reject) => ask(resolve, reject));
  if (entry.isFile) return { name: entry.name, file: () => asked((...done) => entry.file(...done)) };
  const children = async () => {
    const reader = entry.createReader();
    const found = [];
    for (;;) { // browsers hand out a hundred at a time
      const some = await asked((...done) => reader.readEntries(...done));
      found.push(...some.map(ofEntry));
      if (!some.length || found.length > MOST_PATHS) return found;
    }
  };
  return { name: entry.name, children };
}

/* Everything below a folder, two levels deep; null is a folder. */
async function walk(folder, prefix, depth) {
  const paths = [];
  for (const one of await folder.children()) {
    const path = prefix + one.name;
    paths.push([path, one.children ? null : await one.file()]);
    if (one.children && depth > 1) paths.push(...(await walk(one, `${path}/`, depth - 1)));
  }
  return paths;
}

export { folderOf, pathsOfDrop, pathsOfInput };

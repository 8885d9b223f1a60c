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

async function pathsOfDrop(items) {
  const entries = [...items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  const one = entries.length === 1 && entries[0].isDirectory;
  if (one) return walk(entries[0], "", 2);
  const each = entries.map(async (entry) => {
    if (entry.isFile) return [placeOf(await fileOf(entry))];
    return [[entry.name, null], ...(await walk(entry, `${entry.name}/`, 1))];
  });
  return withFolders((await Promise.all(each)).flat());
}

const fileOf = (entry) => new Promise((resolve, reject) => entry.file(resolve, reject));

/* Everything below a folder, two levels deep; null is a folder. */
async function walk(folder, prefix, depth) {
  const paths = [];
  const reader = folder.createReader();
  for (;;) {
    const entries = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (!entries.length || paths.length > MOST_PATHS) return paths;
    for (const entry of entries) {
      const path = prefix + entry.name;
      paths.push([path, entry.isFile ? await fileOf(entry) : null]);
      if (entry.isDirectory && depth > 1) paths.push(...(await walk(entry, `${path}/`, depth - 1)));
    }
  }
}

export { folderOf, pathsOfDrop, pathsOfInput };

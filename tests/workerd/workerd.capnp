using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  services = [
    (name = "main", worker = .worker),
    (name = "disk", disk = (path = "STORAGE", writable = true)),
  ],
  sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "main")],
);

const worker :Workerd.Worker = (
  modules = [
    (name = "worker.js", esModule = embed "worker.js"),
    (name = "talk.js", esModule = embed "talk.js"),
  ],
  compatibilityDate = "2026-03-01",
  durableObjectNamespaces = [
    (className = "Subject", uniqueKey = "subject", enableSql = true),
    (className = "Plain", uniqueKey = "plain", enableSql = true),
    (className = "Talk", uniqueKey = "talk", enableSql = true),
    (className = "Log", uniqueKey = "log", enableSql = true),
  ],
  durableObjectStorage = (localDisk = "disk"),
  bindings = [
    (name = "SUBJECT", durableObjectNamespace = "Subject"),
    (name = "PLAIN", durableObjectNamespace = "Plain"),
    (name = "TALK", durableObjectNamespace = "Talk"),
    (name = "LOG", durableObjectNamespace = "Log"),
  ],
);

package config

import "time"

// Config holds all settings. The zero value is not usable: start from Default.
type Config struct {
	// Directory that holds all durable state of this node; created when missing. One node per directory. Put it on a disk
	// with fast fsync: every acknowledged write waits for it.
	DataDir string `key:"data_dir" default:"./parley-data"`
	// Address (host:port) of the API and the page. Anything but loopback needs auth.enabled, or auth.allow_insecure. Port
	// 0 picks a free one.
	Listen string `key:"listen" default:"127.0.0.1:8080"`
	// Address (host:port) of the operations surface: /healthz, /readyz, /metrics, /version, /debug/pprof. It has no
	// authentication: keep it off the public network.
	OpsListen string `key:"ops_listen" default:"127.0.0.1:8081"`
	// How long a graceful stop may take in all: running turns may finish, streams get a clean end, data is flushed. Turns
	// still running then are recovered at the next start. Keep it below the supervisor's own kill timeout.
	ShutdownGrace time.Duration `key:"shutdown_grace" default:"25s" range:"0s..1h"`
	// How long a node goes on as before after it was told to stop, with /readyz 503 from the beginning, so that load balancers send it
	// nothing more when its port closes: longer than they take to notice. It comes before shutdown_grace.
	ShutdownDelay time.Duration `key:"shutdown_delay" default:"0s" range:"0s..10m"`
	// Cluster addresses (host:port) of nodes to join; may include this node's own. A node with an empty data directory
	// that is first in its own list (or has no list) founds a cluster, unless one of the others already has one; every
	// other node waits until it finds a cluster to join. Use the same list on all nodes.
	Join []string `key:"join"`

	// API token with which the Client API can be used at once: owner's rights, full scope, in the first project; the
	// conversation server takes it too. Without one a token is created at the first start and printed once.
	BootstrapToken Secret `key:"bootstrap_token"`
	// Encrypts credentials that are stored (keys of models and agents, callback secrets): the same on all nodes of a
	// cluster, and never to be lost or changed. Its variable is PROVIDER_ENCRYPTION_SECRET too; where both are unset
	// JWT_SECRET is taken. A single node creates its own and keeps it in its data directory.
	ProviderEncryptionSecret Secret `key:"provider_encryption_secret"`

	Node         Node         `key:"node"`
	Cluster      Cluster      `key:"cluster"`
	Log          Log          `key:"log"`
	Storage      Storage      `key:"storage"`
	HTTP         HTTP         `key:"http"`
	Auth         Auth         `key:"auth"`
	Limits       Limits       `key:"limits"`
	Conversation Conversation `key:"conversation"`
	Actors       Actors       `key:"actors"`
	Turn         Turn         `key:"turn"`
	Tools        Tools        `key:"tools"`
	HITL         HITL         `key:"hitl"`
	Hooks        Hooks        `key:"hooks"`
	Outbound     Outbound     `key:"outbound"`
	Export       Exports      `key:"export"`
	Tasks        Tasks        `key:"tasks"`
	Client       Client       `key:"client"`
	License      License      `key:"license"`
	Permissions  Permissions  `key:"permissions"`
	Audit        Audit        `key:"audit"`
	Accounts     Accounts     `key:"accounts"`
	OIDC         OIDC         `key:"oidc"`
	Mail         Mail         `key:"mail"`
	Webhook      Webhook      `key:"webhook"`
	Gateway      Gateway      `key:"gateway"`
	SSE          SSE          `key:"sse"`
	Ops          Ops          `key:"ops"`

	// Keeps the built-in agent "assistant", which answers from the scripted model without any network. Set it to false
	// to offer only the agents below. As long as there are none below, the built-in agent "demo" is offered as well: it
	// asks for approvals, asks questions, accepts files and spends pretend money.
	BuiltinAssistant bool `key:"builtin_assistant" default:"true"`
	// The agents on offer, in the order in which they are listed.
	Agents []Agent `key:"agents"`

	lookupEnv func(name string) (string, bool) // for api_key_env; set by Load
}

// Node identifies this process.
type Node struct {
	// Name of this node: 1 to 63 letters, digits and hyphens, unlike any other node's. The cluster remembers a node's data
	// by it, so it must stay the same over restarts.
	Name string `key:"name" default:"node-1"`
}

// Log configures the process's own log, written to standard error.
type Log struct {
	// Lowest level that is written: debug, info, warn or error. Debug has a line for each request, and costs throughput under load.
	Level string `key:"level" default:"info" one_of:"debug,info,warn,error"`
	// Form of a line: text for people, json for collectors.
	Format string `key:"format" default:"text" one_of:"text,json"`
}

// Storage configures the replicated log and the store beneath it.
type Storage struct {
	// Number of shards over which conversations are spread, 1 to 1024. Fixed when the data directory is created: a
	// different value is refused later, and a node that joins a cluster uses the cluster's. More shards spread load
	// over more nodes and cost a little idle work each.
	Shards int `key:"shards" default:"16" range:"1..1024"`
	// Memory for cached blocks of the store. More saves reads from disk of conversations that are not in memory. All but
	// 8MiB of it is given back while nobody reads.
	Cache Size `key:"cache" default:"128MiB" range:"1MiB..1TiB"`
	// Size of one write buffer of the store: up to four under load, two permanently. Larger ones are flushed less often
	// and make the replay at a restart longer.
	Memtable Size `key:"memtable" default:"64MiB" range:"1MiB..2GiB"`
	// Writes are refused with 503 while the disk has less free space than this; reads and cancels go on. It must leave
	// room for compactions.
	MinFree Size `key:"min_free" default:"256MiB" range:"0..1024TiB"`
	// Log entries of a shard between two snapshots. Fewer need less disk and less work at a restart, more cost less
	// background writing.
	SnapshotEntries int `key:"snapshot_entries" default:"20000" range:"10..10_000_000"`
	// Log entries kept behind a snapshot, so that a replica that was away for a moment catches up from the log.
	KeepEntries int `key:"keep_entries" default:"5000" range:"1..10_000_000"`
	// Bytes per second at which a copy of a shard is sent to another node and written there; two are sent at a time. A
	// higher rate makes a joining node ready sooner, a lower one disturbs the others less.
	SnapshotRate Size `key:"snapshot_rate" default:"16MiB" range:"64KiB..1TiB"`
	// Tables that the store may keep open; an eighth of the process's file limit if that is less.
	MaxOpenFiles int `key:"max_open_files" default:"1000" range:"100..10_000_000"`
}

// HTTP configures the public listener.
type HTTP struct {
	// Path before all routes of the conversation server; a trailing slash is dropped.
	BasePath string `key:"base_path" default:"/api/agents"`
	// Serves the chat page at /.
	Page bool `key:"page" default:"true"`
	// Serves the interactive API documentation at {base_path}/docs, that of the Client API at {client.base_path}/docs, and that of
	// signed-in users at /api/docs.
	Docs bool `key:"docs" default:"true"`
	// Time a client has to send a whole request, and the longest silence of a new connection. Cuts off slow senders
	// (slow-loris); must be enough for the largest body on the slowest connection.
	ReadTimeout time.Duration `key:"read_timeout" default:"30s" range:"100ms..1h"`
	// Time a client has to receive an ordinary response. Streams have sse.write_timeout.
	WriteTimeout time.Duration `key:"write_timeout" default:"30s" range:"100ms..1h"`
	// How long a kept-alive connection may wait for its next request. Longer saves handshakes and holds connections.
	IdleTimeout time.Duration `key:"idle_timeout" default:"1m15s" range:"100ms..24h"`
	// Time limit of a request that does not wait for a turn.
	RequestTimeout time.Duration `key:"request_timeout" default:"30s" range:"100ms..1h"`
	// Largest request body; larger ones are 413.
	MaxBody Size `key:"max_body" default:"1MiB" range:"1KiB..1GiB"`
	// Largest body of a request that may bring files: a JSON body (with files in base64) is held in memory. Files as
	// raw bytes are only bounded by their agent's limit.
	MaxFileBody Size `key:"max_file_body" default:"16MiB" range:"http.max_body..1GiB"`
	// Largest request line and headers together; larger ones are 431. Each connection has a buffer of this size.
	MaxHeader Size `key:"max_header" default:"16KiB" range:"1KiB..1MiB"`
	// Longest path, without query; longer ones are 414.
	MaxPath Size `key:"max_path" default:"4KiB" range:"256..http.max_header"`
	// Deepest nesting of a JSON body; deeper ones are 400.
	MaxJSONDepth int `key:"max_json_depth" default:"64" range:"4..1000"`
	// Connections open at once; further ones are 503. Together with the event streams they may use only the file
	// descriptors that the store, other nodes and outgoing calls leave over (the share is logged at the start).
	MaxConnections int `key:"max_connections" default:"65536" range:"1..10_000_000"`

	// Further host names by which a server without authentication is reached, such as that of a proxy that passes on
	// Host. Over loopback it only accepts localhost, addresses, the name of the machine and these, so that no web page
	// can reach it by a name of its own.
	Hosts []string `key:"hosts"`

	// Addresses and networks of proxies, e.g. 10.0.0.0/8, that are believed when they say whom a request comes from
	// (http.forwarded_header) and that it came over TLS (X-Forwarded-Proto). Without them everybody behind a proxy is one
	// address for limits per caller. Never name a network from which clients come.
	TrustedProxies []string `key:"trusted_proxies"`
	// The header in which they say it. The other one is not read: a proxy hands on what a client wrote into it.
	ForwardedHeader string `key:"forwarded_header" default:"X-Forwarded-For" one_of:"X-Forwarded-For,Forwarded"`
	// The trusted proxies begin each connection with a PROXY protocol header (version 1 or 2), which says whom it comes from;
	// without one they are refused. For balancers that pass connections on. The headers above are read as well.
	ProxyProtocol bool `key:"proxy_protocol"`

	CORS CORS `key:"cors"`
}

// CORS lets browser pages of other origins call the API.
type CORS struct {
	// Origins that may call, e.g. https://chat.example.com; "*" for any. Empty switches CORS off.
	Origins []string `key:"origins"`
	// Request headers they may send; a name that ends in * is a prefix. The header that carries the token
	// (auth.header_name) is always included.
	Headers []string `key:"headers" default:"Content-Type,Authorization,Last-Event-ID,X-Request-Id,X-Read-Consistency,Idempotency-Key,X-Stainless-*"`
	// How long a browser may cache the response to a preflight request.
	MaxAge time.Duration `key:"max_age" default:"24h" range:"0s..720h"`
}

// Limits bounds what one caller may do. A caller is an identified user, otherwise a network address. A backend with its
// own key is not limited. With authentication off, only the streams of an address are.
type Limits struct {
	// Requests per second of one caller, averaged; over it 429 with Retry-After. 0 = no limit.
	RequestsPerSecond float64 `key:"requests_per_second" range:"0..10000000"`
	// Requests a caller may make at once before the rate applies. 0 = one second's worth.
	Burst int `key:"burst" range:"0..10_000_000"`
	// Event streams one caller may hold open; over it 429. 0 = no limit.
	StreamsPerCaller int `key:"streams_per_caller" default:"256" range:"0..10_000_000"`
	// Callers whose rates are tracked, about 200 bytes each; the least recently seen one is dropped first, and starts
	// with a full burst again.
	Callers int `key:"callers" default:"100000" range:"1..10_000_000"`
}

// Conversation configures sizes and pages of the conversation API.
type Conversation struct {
	// Longest message text of a user. It must fit http.max_body.
	MaxMessage Size `key:"max_message" default:"256KiB" range:"1..http.max_body"`
	// Largest metadata object of a conversation or message.
	MaxMetadata Size `key:"max_metadata" default:"64KiB" range:"2..http.max_body"`
	// Conversations in a list page when the request does not say.
	ListPageSize int `key:"list_page_size" default:"20" range:"1..conversation.max_list_page_size"`
	// Most conversations in a list page.
	MaxListPageSize int `key:"max_list_page_size" default:"100" range:"1..10_000"`
	// Messages in a page when the request does not say.
	MessagePageSize int `key:"message_page_size" default:"100" range:"1..conversation.max_page_size"`
	// Most messages in a page.
	MaxPageSize int `key:"max_page_size" default:"200" range:"1..10_000"`
	// Events in a page of the log when the request does not say.
	EventPageSize int `key:"event_page_size" default:"100" range:"1..conversation.max_event_page_size"`
	// Most events in a page of the log.
	MaxEventPageSize int `key:"max_event_page_size" default:"1000" range:"1..10_000"`
	// Most ids in one bulk delete.
	MaxBulkDelete int `key:"max_bulk_delete" default:"100" range:"1..10_000"`
	// How long a file that was uploaded without a conversation is kept; no message can refer to it. 0 = until it is
	// deleted.
	LooseFileRetention time.Duration `key:"loose_file_retention" default:"168h" range:"0s..876000h"`
	// How long a cancel waits for the turn to end before it answers 202 with settled: false.
	CancelWait time.Duration `key:"cancel_wait" default:"2s" range:"0s..1m"`
	// Permits callers without any identity to list the conversations that have no owner; otherwise that is 401.
	AnonymousList bool `key:"anonymous_list"`
}

// Actors configures the conversations in memory.
type Actors struct {
	// How long a conversation stays in memory after its last use. Longer makes later requests faster, shorter needs
	// less memory; a stored conversation needs none.
	IdleTimeout time.Duration `key:"idle_timeout" default:"30s" range:"100ms..720h"`
	// How long a write may wait for the log before the request gets 503, outcome unknown.
	AppendTimeout time.Duration `key:"append_timeout" default:"10s" range:"10ms..1h"`
	// Commands that may wait for one conversation; further ones are 503.
	Mailbox int `key:"mailbox" default:"128" range:"1..10_000_000"`
	// Conversations in memory at once, about 3 KB each; above it the least recently used ones are unloaded, busy ones
	// stay.
	MaxActive int `key:"max_active" default:"20000" range:"1..10_000_000"`
}

// Turn bounds the turns of agents.
type Turn struct {
	// Turns running at once on this node; further ones are refused with 503.
	MaxConcurrent int `key:"max_concurrent" default:"10000" range:"1..10_000_000"`
	// Longest turn; after that it ends with stop reason error.
	Timeout time.Duration `key:"timeout" default:"15m" range:"100ms..24h"`
	// Model calls in one turn (tool rounds) when the agent does not say.
	MaxRounds int `key:"max_rounds" default:"16" range:"1..1000"`
	// Longest answer of a turn; after that the turn ends with stop reason limit.
	MaxAnswer Size `key:"max_answer" default:"1MiB" range:"1..1GiB"`
	// Most bytes that a model may send for one answer, on the wire, including its reasoning and keep-alives; after that
	// the turn ends with stop reason error. Time limits are settings of each agent's model.
	MaxStream Size `key:"max_stream" default:"64MiB" range:"1KiB..1TiB"`
	// How long a cancelled turn may take to wind down before its lease is revoked.
	StopTimeout time.Duration `key:"stop_timeout" default:"5s" range:"10ms..1h"`
	// Output tokens of one metering step: a conversation with a budget may overspend by at most the cost of one step.
	// Fewer tokens lose less when a node dies during a call, and write to the log more often.
	MeterTokens int `key:"meter_tokens" default:"256" range:"1..100_000"`
}

// SSE configures event streams.
type SSE struct {
	// Silence after which a comment line is sent, so that proxies keep the stream open; also on the gateway's streams.
	// At the same interval the token of a stream, or of a long request, is checked again.
	Ping time.Duration `key:"ping" default:"15s" range:"100ms..1h"`
	// Bytes that may wait for one slow client; above that the stream is closed and the client returns with
	// Last-Event-ID. Larger tolerates slower clients and costs memory.
	Queue Size `key:"queue" default:"64KiB" range:"4KiB..1GiB"`
	// Send buffer of a stream's socket in the kernel. Smaller notices slow clients sooner and holds less memory.
	SendBuffer Size `key:"send_buffer" default:"64KiB" range:"4KiB..64MiB"`
	// How long a client may take nothing of what waits for it.
	WriteTimeout time.Duration `key:"write_timeout" default:"30s" range:"100ms..1h"`
	// Streams open at once on this node; further ones are 503. They share the file descriptors of http.max_connections.
	MaxStreams int `key:"max_streams" default:"50000" range:"1..10_000_000"`
}

// Ops configures the operations listener.
type Ops struct {
	// Serves /debug/pprof to other addresses than loopback, too. Profiles may reveal memory contents.
	RemotePprof bool `key:"remote_pprof"`
	// Accepts operators' commands (drain, backup) from other addresses than loopback, too. There is no authentication.
	RemoteAdmin bool `key:"remote_admin"`
}

package config

import "time"

// Accounts configures how people register and sign in at the dashboard's routes (/api/auth). Document 1 has names of its own for
// some variables; they are read, too.
type Accounts struct {
	// Signs sessions: at least 32 bytes, the same on all nodes of a cluster. Whoever knows it can sign in as anybody.
	// Variable JWT_SECRET, too. A single node creates its own and keeps it in its data directory.
	SessionSecret Secret `key:"session_secret" document:"JWT_SECRET"`
	// How long a session lasts: 1d, 7d or 30d. Variable JWT_EXPIRES_IN, too.
	SessionLifetime string `key:"session_lifetime" default:"7d" one_of:"1d,7d,30d"`
	// Who may register: open (everybody), beta (whoever has one of the access codes) or disabled. Variable
	// REGISTRATION_MODE, too.
	Registration string `key:"registration" default:"open" one_of:"open,beta,disabled" document:"REGISTRATION_MODE"`
	// Codes with which one company each may register during the beta, of at least 8 characters.
	AccessCodes []Secret `key:"access_codes"`
	// URL by which people reach the server, e.g. https://parley.example.com: tells its own pages from others'. With
	// https, cookies are only sent over TLS. Variable NEXT_PUBLIC_APP_URL, too.
	URL string `key:"url" document:"NEXT_PUBLIC_APP_URL"`
	// Passwords that are hashed at once, by processes of low priority. Each hash takes a processor about a quarter
	// of a second; further ones wait. 0: half of the processors, 1 to 4, so that others find one free.
	HashWorkers int `key:"hash_workers" range:"0..64"`
	// HashCost is the exponent of new hashes, 0 = the usual one. It is no setting: tests that share a node have it low.
	HashCost int
	// Hashes that may wait; further requests are refused with 503.
	MaxQueuedHashes int `key:"max_queued_hashes" default:"256" range:"1..100_000"`
	// Sign-ins from one address within login_window, in the whole cluster; further ones are 429.
	LoginAttempts int `key:"login_attempts" default:"10" range:"1..1_000_000"`
	// Sign-ins to the accounts of one email within login_window, from anywhere.
	AccountAttempts int `key:"account_attempts" default:"50" range:"1..1_000_000"`
	// Time within which sign-ins are counted.
	LoginWindow time.Duration `key:"login_window" default:"15m" range:"1s..24h"`
	// Registrations from one address within an hour.
	RegisterAttempts int `key:"register_attempts" default:"5" range:"1..1_000_000"`
	// Companies that are registered within an hour in all, from whatever addresses; further ones are 429.
	RegisterTotal int `key:"register_total" default:"1000" range:"1..1_000_000"`
	// Codes of a second factor that are tried for one user within login_window.
	CodeAttempts int `key:"code_attempts" default:"10" range:"1..1_000_000"`
	// Password resets that are asked for from one address, and for one email, within 15 minutes, in the whole cluster.
	ResetAttempts int `key:"reset_attempts" default:"3" range:"1..1_000_000"`
	// Name of the first company, whose owner signs in with bootstrap_email and bootstrap_password as long as they have no
	// password yet. All three or none. Variables BOOTSTRAP_ORG_NAME, BOOTSTRAP_ADMIN_EMAIL, BOOTSTRAP_ADMIN_PASSWORD and
	// BOOTSTRAP_ADMIN_NAME, too.
	BootstrapCompany string `key:"bootstrap_company" document:"BOOTSTRAP_ORG_NAME"`
	// Email of the first owner.
	BootstrapEmail string `key:"bootstrap_email" document:"BOOTSTRAP_ADMIN_EMAIL"`
	// Password of the first owner.
	BootstrapPassword Secret `key:"bootstrap_password" document:"BOOTSTRAP_ADMIN_PASSWORD"`
	// Name of the first owner.
	BootstrapName string `key:"bootstrap_name" default:"Administrator" document:"BOOTSTRAP_ADMIN_NAME"`
}

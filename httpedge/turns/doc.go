// Package turns sends commands to conversations on behalf of the surfaces: it decodes failures, and waits for a turn whose owner
// may move meanwhile. It also validates inputs that the surfaces share under different names: budgets, decisions on pending
// actions. Rendering the results is up to the surfaces.
package turns

-- Sends one prepared request over and over, each time with another id.
-- Arguments: two files, the request's bytes before and after the ten digits of its id.
local before, after
local number = 1000000000

local function bytes(path)
  local file = assert(io.open(path, "rb"))
  local found = file:read("*a")
  file:close()
  return found
end

function init(arguments)
  before, after = bytes(arguments[1]), bytes(arguments[2])
end

function request()
  number = number + 1
  return before .. number .. after
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format("\nRESULT %d %d %d %d %d\n", summary.requests, summary.duration,
    latency:percentile(50), latency:percentile(99),
    errors.status + errors.connect + errors.read + errors.write + errors.timeout))
end

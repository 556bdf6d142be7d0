// Goes on with an action by itself; without this script there is a button for it.
"use strict";
document.getElementById("mcp-steps").submit();
